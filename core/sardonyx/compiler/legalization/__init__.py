"""What the legalizations of several providers share: a trace put into the form that tuned routines want."""
