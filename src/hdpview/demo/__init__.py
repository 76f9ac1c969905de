"""An invented hospital table to try everything on: no record in it describes a real person, place or
hospital.
"""

from hdpview.demo.hospital import hospital_schema, hospital_schema_text, hospital_table
from hdpview.demo.questions import QUESTIONS, Question

__all__ = ["QUESTIONS", "Question", "hospital_schema", "hospital_schema_text", "hospital_table"]
