elementclass Two { $a | input -> output || $a, $b | input -> output }
Idle -> Two(1, 2, 3) -> Discard; Two(1);
