"""Script and DriverManager: small programs in the configuration that ask and tell handlers.

Scripts run in ordinary Python (`script_run`), between packets.  Where Click is silent or odd: `run` on a script that
waits starts it anew; `$(name)` is always a handler and `$name` always a variable.
"""

from mezzo.base import MezzoError
from mezzo.elements import (
    KILL,
    Arg,
    ConfigError,
    Element,
    Handler,
    Raw,
    Rest,
    entry,
    python,
    random,
    read,
    u32,
    u64,
    write,
)
from mezzo.elements.script_functions import FUNCTIONS, words_of
from mezzo.elements.script_program import Instruction, read_program, split_first
from mezzo.elements.script_run import Runner
from mezzo.elements.units import parse_int

TYPES = ("ACTIVE", "PASSIVE", "DRIVER", "PACKET")


class Script(Element):
    """Runs instructions: sets variables, asks and tells handlers, prints, waits, and stops the router.

    Instructions: `set VAR TEXT`, `init VAR TEXT` (once, at the start), `print [>FILE|>>FILE] TEXT|HANDLER`, `printn`,
    `read HANDLER`, `write HANDLER TEXT`, `save HANDLER FILE`, `append HANDLER FILE`, `wait TIME`, `pause [COUNT]`,
    `label NAME`, `goto NAME [CONDITION]`, `loop`, `return [TEXT]`, `error [TEXT]`, `end`, `exit`, `stop`.  With a `q`
    behind (`setq`, `initq`, `readq`, `writeq`, `returnq`, `errorq`) quotes are taken away.  `$VAR` is a variable,
    `$(HANDLER ARGUMENT...)` what a handler says; a script's own functions need no element name: `$(add $x 1)`.
    `$args`, `$1`, `$#` are what `run` was given, `$?` says how the last write went (0 is well).

    An ACTIVE script starts with the router, a PASSIVE one when its `run` handler is used.  A DRIVER script says what
    happens when the router is to stop: it takes a step, and only where it has ended the router stops.  A PACKET script
    runs for each packet, and returns the output by which it leaves; `exit` drops it.  TYPE PACKET is assumed where a
    script has inputs.
    """

    ports, processing, flow = "-/-", "ah/ah", "x/x"
    instructions = Rest(Raw(), "INSTRUCTION TEXT")
    type = Arg(Raw(), "", "ACTIVE, PASSIVE, DRIVER or PACKET", positional=False)
    default_type = "ACTIVE"
    example = """s :: InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;
x :: Script(TYPE PASSIVE, return $(mul $(c.count) 2));"""
    example_reads = {"c.count": "5", "x.run": "10"}
    see = ("DriverManager", "Message")

    # -- configuration

    def configure(self):
        self.kind = self.type.upper() or ("PACKET" if self.ninputs else self.default_type)
        if self.kind not in TYPES:
            raise ConfigError(f"TYPE {self.kind} is none that this element has; write one of {', '.join(TYPES)}")
        if self.ninputs != (self.kind == "PACKET") or (self.ninputs == 0 and self.noutputs):
            raise ConfigError("a script of TYPE PACKET has one input, the others have no ports")
        self.starts = self.kind in ("ACTIVE", "DRIVER")
        program = read_program(self.instructions, self.error)
        if not program and self.kind == "DRIVER":
            program.append(Instruction("pause"))
        program.append(Instruction("stop" if self.kind == "DRIVER" else "end"))
        self.script = Runner(self, program)

    def initialize(self):
        self.script.prepare()
        if self.kind == "DRIVER":
            others = [e for e in self.router.elements.values() if isinstance(e, Script) and e.kind == "DRIVER"]
            if others[0] is not self:
                raise ConfigError(f"{others[0].name} decides about stops already; there is one script of TYPE DRIVER")
            self.router.stop_hooks.append(self.at_stop)

    def at_stop(self):
        """A DRIVER script is told that the router is to stop: does it want to go on?"""
        return self.script.word != "stop" and self.script.advance(1)

    # -- packet time

    def init(self):
        if self.starts:
            self.timer_after(0)

    @python
    def timer(self):
        # The first time it fires to start the script.
        self.script.advance(1 if self.script.waiting else 0)

    @entry
    def arm(self, ns: u64):
        self.timer_after(ns)

    @entry
    def disarm(self):
        self.timer_clear()

    @entry
    def chance(self) -> u32:
        return random()

    @python
    def process(self, p):
        script = self.script
        script.restart("")
        script.advance(0)
        if script.ended == "exit" or script.failed is not None:
            return KILL
        return self.output(script.result.strip()) if script.ended == "return" else 0

    def output(self, text):
        """The output that a packet script returns: a number, or true and false for 0 and 1."""
        if text in ("true", "false"):
            return int(text == "false")
        try:
            return parse_int(text) & 0xFFFF_FFFF
        except ValueError as trouble:
            self.script.complain(str(trouble))
            return KILL

    # -- handlers

    @write("step", "takes the script past a blocking instruction, or past so many")
    def step(self, text):
        self.script.advance(parse_int(text) if text.strip() else 1)

    @write("goto", "goes on at a label")
    def goto(self, text):
        label = text.strip()
        found = [i for i, x in enumerate(self.script.program) if x.word == "label" and x.text == label]
        if not found:
            raise ValueError(f"there is no label `{label}`")
        self.script.disarm()
        self.script.jump(found[0])
        self.script.advance(0)

    @write("run", "runs the script from its first instruction")
    def run_for_write(self, text):
        self.run(text)

    @read("run", "runs the script with arguments and gives what it returns", param=True)
    def run(self, text):
        self.script.restart(text.strip())
        self.script.advance(0)
        if self.script.failed is not None:
            raise ValueError(self.script.failed or "the script ended with an error")
        return self.script.result

    @read("get", "the value of a variable", param=True)
    def get(self, text):
        found = self.script.value_of(text.strip())
        if found is None:
            raise ValueError(f"there is no variable `{text.strip()}`")
        return found

    @write("set", "sets a variable: NAME TEXT")
    def put(self, text):
        name, value = split_first(text)
        self.script.variables[name] = value

    @read("shift", "takes the first word off a variable", param=True)
    def shift(self, text):
        name = text.strip()
        first, self.script.variables[name] = split_first(self.get(name))
        return first

    @read("now", "the router's time, seconds since 1970")
    def now_text(self):
        seconds, ns = divmod(self.router.engine.epoch_ns + self.router.now_ns, 10**9)
        return f"{seconds}.{ns // 1000:06}"

    @read("random", "a random number: random [N] is below N, random LOW HIGH between them", param=True)
    def random_text(self, text):
        numbers = [parse_int(word) for word in words_of(text)]
        low, high = (numbers[0], numbers[1]) if len(numbers) == 2 else (0, (numbers or [1 << 31])[0] - 1)
        if len(numbers) > 2 or high < low:
            raise ValueError("write random, random N or random LOW HIGH")
        return str(low + (self.call("chance") << 32 | self.call("chance")) % (high - low + 1))

    @read("readable", "can this handler be read", param=True)
    def readable(self, text):
        return self.has(text, "read")

    @read("writable", "can this handler be written", param=True)
    def writable(self, text):
        return self.has(text, "write")

    def has(self, text, way):
        try:
            return getattr(self.router.handlers.find(self.script.path_of(text.strip()))[1], way) is not None
        except MezzoError:
            return False


def _function(name):
    compute, doc = FUNCTIONS[name]
    return Handler(name, read=lambda element, text: compute(text), doc=doc, flags="+")


Script.handler_table.update({name: _function(name) for name in FUNCTIONS})


class DriverManager(Script):
    """A script of TYPE DRIVER: says what happens when the router is to stop.

    `wait_stop [COUNT]` waits for so many stops, `wait TIME` for a time or a stop; at the end of the instructions the
    router stops.  Without instructions it stops at the first stop.
    """

    default_type = "DRIVER"
    example = """s :: InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard;
DriverManager(wait_stop, write c.reset, stop);"""
    example_reads = {"c.count": "0"}
    see = ("Script",)
