"""Networks for series and text, one file each. They register by themselves."""
