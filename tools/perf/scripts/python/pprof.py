# SPDX-License-Identifier: GPL-2.0
# pprof.py - write perf samples as a profile in pprof's format
#
# pprof, Pyroscope, Parca and others read this format, which is described in
# https://github.com/google/pprof/blob/main/proto/profile.proto
#
# Usage:
#
#     perf record -a -g -F 99 sleep 60
#     perf script report pprof -i perf.data -o perf.pb.gz
#     perf script report pprof --event page-faults --lines
#
# pylint: disable=missing-module-docstring

import argparse
import gzip
import os
import re
import struct
import sys
import time

# Where perf's own modules are, beside this script
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])),
                             "Perf-Trace-Util/lib/Perf/Trace"))

import EventChoice # pylint: disable=wrong-import-position

# Fields of the message Profile
SAMPLE_TYPE = 1
SAMPLE = 2
MAPPING = 3
LOCATION = 4
FUNCTION = 5
STRING_TABLE = 6
TIME_NANOS = 9
DURATION_NANOS = 10
PERIOD_TYPE = 11
PERIOD = 12
DEFAULT_SAMPLE_TYPE = 14

# The beginning of struct perf_event_attr: type, size and config
ATTR = struct.Struct("=IIQ")
TYPE_SOFTWARE = 1
CLOCKS = (0, 1)

# Not a program, but code that was made while one ran
GENERATED = re.compile(r"//anon|/tmp/perf-\d+\.map$")


def varint(value):
    """An integer: seven bits to a byte, the lowest ones first"""
    data = bytearray()
    while value > 0x7f:
        data.append(value & 0x7f | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def integer(field, value):
    """A field with an integer. Readers take a missing field for 0."""
    return varint(field << 3) + varint(value) if value else b""


def delimited(field, data):
    """A field with a string, a message, or several integers"""
    return varint(field << 3 | 2) + varint(len(data)) + data


def integers(field, values):
    """A repeated field of integers"""
    return delimited(field, b"".join(map(varint, values)))


class Profile:
    """
    A profile. Most entries of its tables are written when they are first used; samples,
    which are counted, and mappings, the program's first, at the end.
    """

    def __init__(self, with_lines):
        self.data = bytearray()
        self.with_lines = with_lines
        self.strings = {}
        self.entries = {LOCATION: {}, FUNCTION: {}}
        self.mappings = {}
        self.frames = {}
        self.samples = {}
        self.string("")

    def string(self, text):
        """The number of a string"""
        if text not in self.strings:
            self.strings[text] = len(self.strings)
            self.data += delimited(STRING_TABLE, text.encode())
        return self.strings[text]

    def entry(self, table, fields):
        """The number of a mapping, location or function, by its other fields"""
        entries = self.entries[table]
        if fields not in entries:
            entries[fields] = len(entries) + 1
            self.data += delimited(table, integer(1, entries[fields]) + fields)
        return entries[fields]

    def mapping(self, dso, mapping):
        """The number of a mapping, or 0 for none"""
        if not mapping[1]:
            return 0
        return self.mappings.setdefault((dso, mapping), len(self.mappings) + 1)

    def location(self, address, lines, dso, mapping):
        """The number of a location: @lines has (function, file, line), inlined ones first"""
        key = (address, lines, dso, mapping)
        if key not in self.frames:
            fields = integer(2, self.mapping(dso, mapping)) + integer(3, address)
            for name, file, line in lines:
                function = self.entry(FUNCTION, integer(2, self.string(name)) +
                                      integer(4, self.string(file)))
                fields += delimited(4, integer(1, function) + integer(2, line))
            self.frames[key] = self.entry(LOCATION, fields)
        return self.frames[key]

    def add(self, locations, labels, event, period):
        """Count a sample of an event"""
        counts = self.samples.setdefault((tuple(locations), tuple(labels)), {})
        values = counts.setdefault(event, [0, 0])
        values[0] += 1
        values[1] += period

    def write_mappings(self, program):
        """Readers take the first mapping for that of the program, a file name."""
        for (dso, mapping), number in sorted(self.mappings.items(),
                                             key=lambda item: item[0][0] != program):
            start, end, offset, build_id = mapping
            # The last fields: functions, files, lines, inlined functions were looked up.
            self.data += delimited(MAPPING, integer(1, number) + integer(2, start) +
                                   integer(3, end) + integer(4, offset) +
                                   integer(5, self.string(dso)) +
                                   integer(6, self.string(build_id)) + integer(7, 1) +
                                   integer(8, self.with_lines) + integer(9, self.with_lines) +
                                   integer(10, self.with_lines))

    def value_type(self, field, name, unit):
        """A field that says what values are"""
        return delimited(field, integer(1, self.string(name)) + integer(2, self.string(unit)))

    def finish(self, events, program, end, duration):
        """
        The whole profile, with two values for each of the @events: samples, and the sum
        of their periods. Times are nanoseconds.
        """
        shown = None
        for event, (unit, period) in events.items():
            prefix = event + "_" if len(events) > 1 else ""
            is_time = unit == "nanoseconds"
            name = prefix + "time" if is_time else event
            self.data += self.value_type(SAMPLE_TYPE, prefix + "samples", "count")
            self.data += self.value_type(SAMPLE_TYPE, name, unit)
            # The default value that readers show: the time, if any event has one
            if not shown or (is_time and shown[2] != unit):
                shown = (name, "cpu" if is_time else event, unit, period)
        if shown:
            self.data += integer(DEFAULT_SAMPLE_TYPE, self.string(shown[0]))
            self.data += self.value_type(PERIOD_TYPE, shown[1], shown[2])
            self.data += integer(PERIOD, shown[3])
        self.data += integer(TIME_NANOS, end - duration)
        self.data += integer(DURATION_NANOS, duration)
        self.write_mappings(program)
        for (locations, labels), counts in self.samples.items():
            values = [value for event in events for value in counts.get(event, (0, 0))]
            fields = integers(1, locations) + integers(2, values)
            for key, value in labels:
                fields += delimited(3, integer(1, self.string(key)) +
                                    integer(2, self.string(value)))
            self.data += delimited(SAMPLE, fields)
        return self.data


class PprofCLI:
    """The functions that perf calls for each sample and at the end"""

    def __init__(self, args):
        self.args = args
        self.profile = Profile(args.lines)
        self.events = EventChoice.EventChoice(args.event, dict)
        self.programs = {}
        self.types = {}
        self.samples = {}
        self.first = None
        self.last = 0

    @staticmethod
    def get_name(symbol, dso):
        """Code without a symbol has the name of its file, as in stackcollapse.py."""
        if symbol:
            return symbol
        if dso and dso != "[unknown]":
            return "[{}]".format(os.path.basename(dso).strip("[]"))
        return "[unknown]"

    def get_line(self, symbol, srcline, dso):
        """The function, file and line of an entry"""
        file, _, line = (srcline or "").rpartition(":")
        if not self.args.lines or not line.isdigit():
            file, line = "", 0
        return (self.get_name(symbol, dso), file, int(line))

    def get_location(self, address, lines, where, pid):
        """The number of a location in @where, which has the file and its mapping"""
        dso = where.get("dso")
        mapping = (where.get("dso_map_start", 0), where.get("dso_map_end", 0),
                   where.get("dso_map_pgoff", 0), where.get("dso_bid", ""))
        # A program is below its libraries.
        if dso and dso[0] == "/" and not GENERATED.match(dso) and address < 1 << 63:
            self.programs[pid] = min((mapping[0], dso), self.programs.get(pid, (1 << 64, "")))
        return self.profile.location(address, tuple(lines), dso, mapping)

    def get_locations(self, event):
        """The numbers of the locations of a stack, innermost first"""
        pid = event["sample"]["pid"]
        if not event["callchain"]:
            line = self.get_line(event.get("symbol"), None, event.get("dso"))
            return [self.get_location(event["sample"]["ip"], [line], event, pid)]
        locations = []
        lines = []
        inner = None
        for entry in event["callchain"]:
            lines.append(self.get_line(entry.get("sym", {}).get("name"),
                                       entry.get("sym_srcline"), entry.get("dso")))
            # The function that it was inlined in follows, at the same address.
            if entry.get("inlined"):
                continue
            address = ip = entry["ip"]
            # A caller's address is where its call returns to; pprof wants one within
            # the call. Not so after the kernel or a mark, which have none.
            if ip and inner and (ip ^ inner) < 1 << 63:
                address -= 1
            locations.append(self.get_location(address, lines, entry, pid))
            lines = []
            inner = ip
        return locations

    @staticmethod
    def get_unit(event):
        """Name and unit of the periods of an event"""
        kind, _, config = ATTR.unpack_from(event["attr"])
        if kind == TYPE_SOFTWARE and config in CLOCKS:
            return "nanoseconds"
        return "count"

    def process_event(self, event):
        """A sample"""
        sample = event["sample"]
        if self.events.get(event) is None:
            return
        labels = [("comm", event["comm"]), ("pid", str(sample["pid"]))]
        if "cgroup" in sample:
            labels.append(("cgroup", sample["cgroup"]))
        name = event["ev_name"]
        if name not in self.types:
            self.types[name] = (self.get_unit(event), sample["period"])
        self.profile.add(self.get_locations(event), labels, name, sample["period"])
        self.samples[sample["pid"]] = self.samples.get(sample["pid"], 0) + 1
        if self.first is None:
            self.first = sample["time"]
        self.last = max(self.last, sample["time"])

    def get_program(self):
        """The file name of the program that has most of the samples"""
        counts = {}
        for pid, (_, dso) in self.programs.items():
            counts[dso] = counts.get(dso, 0) + self.samples[pid]
        return max(counts, key=counts.get, default=None)

    def trace_end(self):
        """After the last sample"""
        self.events.check()
        # Samples have the time of a clock that began with the computer. A recording
        # ended when its file was last written.
        try:
            end = os.stat(self.args.input).st_mtime_ns
        except OSError:
            end = time.time_ns()
        duration = self.last - self.first if self.first is not None else 0
        types = {name: self.types[name] for name in self.events.sorted()}
        data = self.profile.finish(types, self.get_program(), end, duration)
        print("dumping data to {}".format(self.args.output))
        try:
            with gzip.open(self.args.output, "wb") as out:
                out.write(data)
        except OSError as err:
            print("Error writing output file: {}".format(err), file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a profile in pprof's format.")
    parser.add_argument("-o", "--output", default="perf.pb.gz",
                        help="output file name (default: %(default)s)")
    parser.add_argument("--event", help=EventChoice.HELP)
    parser.add_argument("--lines", action="store_true",
                        help="with source lines, which takes longer")
    parser.add_argument("-i", "--input", default="perf.data",
                        help=argparse.SUPPRESS)

    cli = PprofCLI(parser.parse_args())

    process_event = cli.process_event

    def trace_unhandled(_event_name, _context, _fields, event):
        """Samples of tracepoints, for which perf looks here"""
        process_event(event)

    trace_end = cli.trace_end
