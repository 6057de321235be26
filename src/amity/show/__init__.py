"""What one sees: figures, reports, tables on the terminal."""
