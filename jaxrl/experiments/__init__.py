"""Trainings compared: contenders are named, their runs trained or read, and one report is written."""
