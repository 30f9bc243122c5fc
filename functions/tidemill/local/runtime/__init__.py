"""Lambda on one machine: the real Python runtime client in real processes, behind the four routes it speaks."""
