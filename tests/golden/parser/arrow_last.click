Idle -> ;
Idle -> Discard;