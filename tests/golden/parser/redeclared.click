q :: Queue(64);
Idle -> q;
	q :: Queue(200);
