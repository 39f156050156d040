q :: Queue(200;
Idle -> q -> Discard;
