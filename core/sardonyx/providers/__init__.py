"""What an execution provider is, and which there are; none of them is implemented here."""
