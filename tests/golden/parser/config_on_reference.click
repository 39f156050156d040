q :: Queue;
Idle -> q(5) -> Discard;
