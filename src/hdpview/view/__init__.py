"""Released side: a view as data, and its file. It has no access to tables and cannot import private rooms.

data          a view in memory, and the protocol of its components; blocks (on rectangles) and mixture
released_tables  noisy counts with known noise; quality: how large the view's errors are
manifest      public facts about the view, their meaning for one person, and their form in files
merge, sample several views as one; synthetic records
file          the .pview file; contents: its columns and arrays; save: save a view without losing it
card          a one-page privacy statement; diagnosis: likely mistakes in the schema
"""
