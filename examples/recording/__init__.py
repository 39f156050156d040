"""How the demo's captures are made: the crafted frames, the hosts' small programs, and the README's counts."""
