"""An invented hospital table to try everything on: no record describes a real person or place."""

from hdpview.demo.hospital import QUESTIONS, Question, hospital_schema, hospital_schema_text, hospital_table

__all__ = ["QUESTIONS", "Question", "hospital_schema", "hospital_schema_text", "hospital_table"]
