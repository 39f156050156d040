// A learning switch between four network interfaces.
//
//   mezzo run examples/bridge.click A=eth0 B=eth1 C=eth2 D=eth3
//
// Frames pass as they are, VLAN tags too; each interface must take frames for everybody, hence PROMISC.

define($A eth0, $B eth1, $C eth2, $D eth3, $METHOD AUTO);

elementclass Port { $dev |
  FromDevice($dev, METHOD $METHOD, PROMISC true, SNIFFER false) -> in :: Counter -> output;
  input -> q :: Queue(512) -> out :: Counter -> ToDevice($dev, METHOD $METHOD);
}

switch :: EtherSwitch;
a :: Port($A); b :: Port($B); c :: Port($C); d :: Port($D);
a -> [0] switch; b -> [1] switch; c -> [2] switch; d -> [3] switch;
switch[0] -> a; switch[1] -> b; switch[2] -> c; switch[3] -> d;
