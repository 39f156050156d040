"""Script and DriverManager: small programs in the configuration that ask and tell handlers.

Scripts run in ordinary Python (`script_run`), between packets.  Where Click is silent or odd: `run` on a script that
waits starts it anew; `$(name)` is always a handler and `$name` always a variable; a packet script that stops at a
`wait` or `pause` drops its packet.
"""

from mezzo.base import MezzoError
from mezzo.elements import (
    Arg,
    ConfigError,
    Element,
    Handler,
    Raw,
    Rest,
    entry,
    i64,
    python,
    random,
    read,
    u32,
    u64,
    write,
)
from mezzo.elements.confparse import split_words
from mezzo.elements.script_functions import FUNCTIONS, PRIVATE, show_bool, words_of
from mezzo.elements.script_program import Instruction, read_program, split_first
from mezzo.elements.script_run import Runner
from mezzo.elements.script_signals import DESK, catchable, signal_name, signal_number
from mezzo.elements.units import parse_int

TYPES = ("ACTIVE", "PASSIVE", "DRIVER", "PACKET", "PROXY", "SIGNAL")
LISTENS = ("", "end", "return", "stop")  # how a signal script ended that is there for the next signal


class Script(Element):
    """Runs instructions: sets variables, asks and tells handlers, prints, waits, and stops the router.

    Instructions: `set VAR TEXT`, `init VAR TEXT` (once, at the start), `export VAR [TEXT]` (as `init`, and VAR can be
    read as a handler), `print [>FILE|>>FILE] TEXT|HANDLER`, `printn`, `read HANDLER`, `write HANDLER TEXT`,
    `save HANDLER [FILE]`, `append HANDLER [FILE]`, `wait TIME`, `pause [COUNT]`, `label NAME`, `goto NAME [CONDITION]`,
    `loop`, `return [TEXT]`, `error [TEXT]`, `end`, `exit`, `stop`.  `goto` takes begin, end, error, exit and stop for
    labels, too.  With a `q` behind (`setq`, `initq`, `exportq`, `returnq`, `errorq`; `readq`, `writeq`, `printq` and
    `printnq` for what the handler is given) quotes are taken away.  `$VAR` is a variable, `$(HANDLER ARGUMENT...)` what
    a handler says; a script's own functions need no element name: `$(add $x 1)`.  `$args`, `$1`, `$#` are what `run`
    was given, `$?` says how the last write went (0 is well), `$$` is the number of this process.

    An ACTIVE script starts with the router, a PASSIVE one when its `run` handler is used.  A DRIVER script says what
    happens when the router is to stop: it takes a step, and only where it has ended the router stops.

    A PACKET script runs for each packet, which `$input` says the input of, and returns the output by which it leaves;
    `exit` drops it.  TYPE PACKET is assumed where a script has inputs.

    A PROXY script runs for every handler that a script does not have anyway: `$0` is the handler's name, `$write` says
    whether it was written.  TYPE SIGNAL INT HUP runs between packets, soon after one of these signals came, and `$1`
    names it.  While it waits, and after `exit` or `error`, a signal does what it does without the script.

    `cat`, `catq`, `getenv` and `kill` are for scripts; who comes by a control socket finds no such handlers.
    """

    ports, processing, flow = "-/-", "ah/ah", "x/x"
    instructions = Rest(Raw(), "INSTRUCTION TEXT")
    type = Arg(Raw(), "", "ACTIVE, PASSIVE, DRIVER, PACKET, PROXY or SIGNAL NAME...", positional=False)
    default_type = "ACTIVE"
    in_python = True
    example = """s :: InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;
x :: Script(TYPE PASSIVE, return $(mul $(c.count) 2));
y :: Script(TYPE PROXY, return "$0 of $1");"""
    example_reads = {"c.count": "5", "x.run": "10", "y.price tea": '"price of tea"'}
    see = ("DriverManager", "Message")

    # -- configuration

    def configure(self):
        word, *signals = split_words(self.type) or [""]
        self.kind = self.kind_of(word.upper(), signals)
        if bool(self.ninputs) != (self.kind == "PACKET") or (self.ninputs == 0 and self.noutputs):
            raise ConfigError("a script of TYPE PACKET has inputs, the others have no ports")
        if self.ninputs > 1 and "pull" in self.input_kinds:
            raise ConfigError("a script that packets are pulled through has one input")
        self.starts = self.kind in ("ACTIVE", "DRIVER")
        if self.kind == "DRIVER":
            first = self.env.names.setdefault("driver script", {}).setdefault("", self.name)
            if first != self.name:
                raise ConfigError(f"{first} decides about stops already; there is one script of TYPE DRIVER")
        program = read_program(self.instructions, self.error)
        self.export(program)
        if not program and self.kind == "DRIVER":
            program.append(Instruction("pause"))
        program.append(Instruction("stop" if self.kind == "DRIVER" else "end"))
        self._script = Runner(self, program)

    def kind_of(self, word, signals):
        """The TYPE, and into `numbers` the signals."""
        kind = "PACKET" if word == "PUSH" else word or ("PACKET" if self.ninputs else self.default_type)
        if kind not in TYPES:
            raise ConfigError(f"TYPE {kind} is none that this element has; write one of {', '.join(TYPES)}")
        if bool(signals) != (kind == "SIGNAL"):
            wanted = "the signals' names behind it, as in TYPE SIGNAL INT" if kind == "SIGNAL" else "nothing behind it"
            raise ConfigError(f"TYPE {kind} has {wanted}")
        self.numbers = sorted({catchable(signal_number(name)) for name in signals})
        self._pending, self.listening = set(), True
        return kind

    def export(self, program):
        """Variables that are handlers."""
        names = {split_first(one.text)[0]: one.written for one in program if one.word == "export"}
        for name, text in names.items():
            if name in type(self).handler_table:
                self.error(f"`{name}` cannot be exported: every script has a handler of this name", text)
        if names:
            own = {name: Handler(name, read=_variable(name), doc="an exported variable") for name in names}
            self.handler_table = {**type(self).handler_table, **own}

    def initialize(self):
        if self.kind == "DRIVER":
            self.router.stop_hooks.append(self.at_stop)
        try:
            if self.numbers:  # a reload gets this ready in a thread of its own, the router may run in the main one
                self.router.at_rest(self.join)
        except ValueError as trouble:
            raise ConfigError(str(trouble)) from None
        self.settle()

    def join(self):
        for number in self.numbers:
            DESK.join(number, self)

    def moved(self, old):
        """A script that takes another's place at a reload knows what that one knew, but for what it sets itself."""
        if old is not self:
            self._script.variables.update(old._script.variables)

    def cleanup(self):
        if self.at_stop in self.router.stop_hooks:
            self.router.stop_hooks.remove(self.at_stop)
        if self.numbers:
            DESK.leave(self)
            if self.router.elements.get(self.name) in (self, None):  # no other has taken its place
                self.router.awaited.discard(self.name)

    def is_in_place(self):
        """Beside a reload there are two scripts of a name; the router has one of them."""
        return self.router.elements.get(self.name) is self

    def at_stop(self):
        """A DRIVER script is told that the router is to stop: does it want to go on?"""
        return self.is_in_place() and self._script.word != "stop" and self.advance(1)

    def advance(self, steps):
        """Goes on with the script; says whether it blocks.  An `error` that nobody asked for is said."""
        blocks = self._script.advance(steps)
        if self._script.failed:
            self._script.complain(self._script.failed)
        self.settle()
        return blocks

    # -- signals

    def came(self, number):
        """In the signal handler: takes note, for the next quiescent point."""
        if number not in self._pending:
            self._pending.add(number)
            self.router.post(lambda: self.signalled(number))

    def signalled(self, number):
        self._pending.discard(number)
        if not self.is_in_place():
            return
        if not self.listening:
            DESK.declined(number)
            return
        self._script.restart(signal_name(number))
        self.advance(0)

    def settle(self):
        """Whether the script listens to signals, and keeps the router running for their sake."""
        if not self.numbers:
            return
        started = self._script.asked != ""
        self.listening = self._script.ended in LISTENS and not (started and self._script.blocked)
        # No signal can move a virtual clock.
        if self.listening and not self.router.virtual:
            self.router.awaited.add(self.name)
        else:
            self.router.awaited.discard(self.name)

    # -- packet time

    def init(self):
        self.begin()
        if self.starts:
            self.timer_after(0)

    @python
    def begin(self):
        # Every element is ready now.
        self._script.prepare()

    @python
    def timer(self):
        # The first time it fires to start the script.
        self.advance(1 if self._script.waiting else 0)

    @entry
    def arm(self, ns: u64):
        self.timer_after(ns)

    @entry
    def disarm(self):
        self.timer_clear()

    @entry
    def chance(self) -> u32:
        return random()

    def push(self, port, p):
        out = i64(self.output_for(port))
        if out < 0:
            self.kill(p, "script")
        else:
            self.push(u32(out), p)

    def pull(self, port):
        p = self.pull(0)
        if p is None:
            return None
        out = i64(self.output_for(0))
        if out == 0:
            return p
        if out < 0:
            self.kill(p, "script")
        else:
            self.push(u32(out), p)
        self.wake_down()  # there may be more packets to pull
        return None

    @python
    def output_for(self, port):
        """Runs the script for a packet: the output that it returns, or -1."""
        script = self._script
        script.variables["input"] = str(port)
        script.restart("")
        self.advance(0)
        if script.ended in ("end", "stop"):
            return 0
        return self.port_of(script.result.strip()) if script.ended == "return" else -1

    def port_of(self, text):
        """A port's number, or true and false for 0 and 1."""
        try:
            port = int(text == "false") if text in ("true", "false") else parse_int(text)
        except ValueError as trouble:
            self._script.complain(str(trouble))
            return -1
        return port if 0 <= port < self.noutputs else -1

    # -- handlers

    @write("step", "takes the script past a blocking instruction, or past so many")
    def step(self, text):
        self.advance(parse_int(text) if text.strip() else 1)

    @write("goto", "goes on at a label")
    def goto(self, text):
        self._script.jump_to(text.strip())
        self.advance(0)

    @write("run", "runs the script from its first instruction")
    def run_for_write(self, text):
        self.run(text, written=True)

    @read("run", "runs the script with arguments and gives what it returns", param=True)
    def run(self, text, asked="run", written=False):
        self._script.restart(text.strip(), asked, written)
        self._script.advance(0)
        self.settle()
        if self._script.failed is not None:
            raise ValueError(self._script.failed or "the script ended with an error")
        return self._script.result

    def other_handler(self, name):
        if self.kind != "PROXY":
            return None
        return Handler(
            name,
            read=lambda element, text: element.run(text, name),
            write=lambda element, text: element.run(text, name, written=True),
            doc="runs the script",
            flags="+",
        )

    @read("get", "the value of a variable", param=True)
    def get(self, text):
        found = self._script.value_of(text.strip())
        if found is None:
            raise ValueError(f"there is no variable `{text.strip()}`")
        return found

    @write("set", "sets a variable: NAME TEXT")
    def put(self, text):
        name, value = split_first(text)
        if not name:
            raise ValueError("write NAME TEXT")
        self._script.variables[name] = value

    @read("shift", "takes the first word off a variable, $args if none is named", param=True)
    def shift(self, text):
        name = text.strip() or "args"
        first, left = split_first(self.get(name))
        if name == "args":
            self._script.args = left
        else:
            self._script.variables[name] = left
        return first

    @read("now", "the router's time, seconds since 1970")
    def now_text(self):
        seconds, ns = divmod(self.router.engine.epoch_ns + self.router.now_ns, 10**9)
        return f"{seconds}.{ns // 1000:06}"

    @read("random", "a random number: random [N] is below N, random LOW HIGH between them", param=True)
    def random_text(self, text):
        numbers = [parse_int(word) for word in words_of(text)]
        low, high = (numbers[0], numbers[1]) if len(numbers) == 2 else (0, (numbers or [1 << 31])[0] - 1)
        if len(numbers) > 2 or high < low or high - low >= 1 << 64:
            raise ValueError("write random, random N or random LOW HIGH")
        return str(low + (self.call("chance") << 32 | self.call("chance")) % (high - low + 1))

    @read("readable", "can these handlers be read", param=True)
    def readable(self, text):
        return all(self.has(path, "read") for path in split_words(text))

    @read("writable", "can these handlers be written", param=True)
    def writable(self, text):
        return all(self.has(path, "write") for path in split_words(text))

    def has(self, path, way):
        try:
            return getattr(self.router.handlers.find(self._script.path_of(path))[1], way) is not None
        except MezzoError:
            return False

    @read("hasname", "are these names of elements", param=True)
    def hasname(self, text):
        paths = [self._script.path_of(f"{name}.name") for name in split_words(text)]
        return show_bool(all(path.removesuffix(".name") in self.router.elements for path in paths))


def _variable(name):
    return lambda element, text: element._script.variables.get(name, "")


def _function(name):
    compute, doc = FUNCTIONS[name]
    return Handler(name, read=lambda element, text: compute(text), doc=doc, flags="+", private=name in PRIVATE)


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
