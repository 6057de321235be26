"""Who is who: keys, certificates, the roster."""
