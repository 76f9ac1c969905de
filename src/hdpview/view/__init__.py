"""Released side: a view as data, and its file. It has no access to tables and cannot import private rooms.

components    the protocol of all views; blocks (on rectangles) and mixture implement it
tables        released tables; quality: how large the view's errors are
manifest      public facts about the view (facts: their types; manifest_json: as JSON)
data          all of it together; merge, sample: several views as one, synthetic records
file          the .pview file; contents: its columns and arrays; save: save a view without losing it
card          a one-page privacy statement (risk, audited); diagnosis: likely mistakes in the schema
"""
