"""Questions to ask of the invented hospital table, and of a view of it."""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """A question in plain English, and the SQL condition for it: one text for view and table."""

    text: str
    where: str


QUESTIONS: tuple[Question, ...] = (  # from broad to narrow
    Question("How many admissions were emergencies?", "admission = 'emergency'"),
    Question("For how many admissions was it not recorded whether the patient smokes?", "smoker IS NULL"),
    Question(
        "How many women over 65 were admitted as an emergency?",
        "sex = 'Female' AND age > 65 AND admission = 'emergency'",
    ),
    Question(
        "How many admissions of people aged 45 to 64 showed a systolic blood pressure from 140 up to 180?",
        "age BETWEEN 45 AND 64 AND systolic_bp >= 140 AND systolic_bp < 180",
    ),
    Question(
        "How many people from Northmoor or Eastvale were admitted for cancer or a circulatory disease "
        "and cost 10,000 crowns or more?",
        "region IN ('Northmoor', 'Eastvale') AND diagnosis IN ('cancer', 'circulatory') AND cost >= 10000",
    ),
    Question(
        "How many respiratory admissions were there in the winter from December 2022 to February 2023?",
        "diagnosis = 'respiratory' AND admitted >= DATE '2022-12-01' AND admitted < DATE '2023-03-01'",
    ),
    Question(
        "How many male smokers over 60 came back to cardiology within 30 days of going home?",
        "sex = 'Male' AND age > 60 AND smoker = TRUE AND ward = 'cardiology' AND readmitted = TRUE",
    ),
)
