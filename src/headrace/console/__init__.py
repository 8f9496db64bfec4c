"""What a person sees of a run: the live table. Reads statistics, computes nothing with the data."""
