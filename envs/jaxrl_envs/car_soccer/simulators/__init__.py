"""Other programs that simulate car soccer, behind the same contract."""
