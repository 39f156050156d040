// Writes the first packet of every flow to a capture file: who talks to whom, however much they say.
//
//   mezzo run examples/new-flows.click DEV=eth0 FILE=flows.pcap
//
// A flow that was quiet while FLOWS others came counts as new again.  With METHOD=XDP and --place auto, packets of known
// flows are counted in the kernel and come no further.

define($DEV eth0, $FILE flows.pcap, $FLOWS 65536, $METHOD AUTO);

FromDevice($DEV, METHOD $METHOD, PROMISC true)
  -> ip :: Classifier(12/0800, -)
  -> MarkIPHeader(14)
  -> flows :: FlowCache($FLOWS);
flows[0] -> known :: Counter -> Discard;
flows[1] -> ToDump($FILE);
ip[1] -> other :: Counter -> Discard;
