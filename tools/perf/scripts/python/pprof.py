# SPDX-License-Identifier: GPL-2.0
# pprof.py - write perf samples as a profile in pprof's format
#
# pprof, Pyroscope, Parca and others read this format, which is described in
# https://github.com/google/pprof/blob/main/proto/profile.proto
#
# Usage:
#
#     perf record -a -g -F 99 sleep 60
#     perf script report pprof
#     perf script report pprof -i perf.data -o perf.pb.gz
#
# Combined:
#
#     perf script pprof -a -F 99 sleep 60
#
# pylint: disable=missing-module-docstring

import argparse
import gzip
import os
import struct
import sys
import time

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

# The beginning of struct perf_event_attr: type, size, config, period or frequency,
# sample_type, read_format, and flags, which are bit fields
ATTR = struct.Struct("=IIQQQQQ")
TYPE_SOFTWARE = 1
CLOCKS = (0, 1)
FLAG_FREQ = 1 << (10 if sys.byteorder == "little" else 53)


def varint(value):
    """An integer: seven bits to a byte, the lowest ones first"""
    data = bytearray()
    while value > 0x7f:
        data.append(value & 0x7f | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def integer(field, value):
    """A field with an integer. 0 is what a reader takes a missing field for."""
    return varint(field << 3) + varint(value) if value else b""


def delimited(field, data):
    """A field with a string, a message, or several integers"""
    return varint(field << 3 | 2) + varint(len(data)) + data


def integers(field, values):
    """A repeated field of integers"""
    return delimited(field, b"".join(map(varint, values)))


class Profile:
    """
    A profile. Entries of its tables are written when they are first used; samples,
    which are counted, at the end.
    """

    def __init__(self):
        self.data = bytearray()
        self.strings = {}
        self.entries = {MAPPING: {}, LOCATION: {}, FUNCTION: {}}
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

    def location(self, address, name, dso, mapping):
        """The number of a location"""
        key = (address, name, dso, mapping)
        if key not in self.frames:
            start, end, offset, build_id = mapping
            number = 0
            if end:
                # The last field: functions have been looked up.
                number = self.entry(MAPPING, integer(2, start) + integer(3, end) +
                                    integer(4, offset) + integer(5, self.string(dso)) +
                                    integer(6, self.string(build_id)) + integer(7, 1))
            function = self.entry(FUNCTION, integer(2, self.string(name)))
            self.frames[key] = self.entry(LOCATION, integer(2, number) + integer(3, address) +
                                          delimited(4, integer(1, function)))
        return self.frames[key]

    def add(self, locations, labels, nanoseconds):
        """Count a sample"""
        values = self.samples.setdefault((tuple(locations), tuple(labels)), [0, 0])
        values[0] += 1
        values[1] += nanoseconds

    def value_type(self, field, name, unit):
        """A field that says what values are"""
        return delimited(field, integer(1, self.string(name)) + integer(2, self.string(unit)))

    def finish(self, period, end, duration):
        """The whole profile; times are nanoseconds"""
        self.data += self.value_type(SAMPLE_TYPE, "samples", "count")
        self.data += self.value_type(SAMPLE_TYPE, "time", "nanoseconds")
        if period:
            self.data += self.value_type(PERIOD_TYPE, "cpu", "nanoseconds")
            self.data += integer(PERIOD, period)
        else:
            # Readers show the last type, unless told otherwise. It is 0 here.
            self.data += integer(DEFAULT_SAMPLE_TYPE, self.string("samples"))
        self.data += integer(TIME_NANOS, end - duration)
        self.data += integer(DURATION_NANOS, duration)
        for (locations, labels), values in self.samples.items():
            fields = integers(1, locations) + integers(2, values)
            for key, value in labels:
                fields += delimited(3, integer(1, self.string(key)) +
                                    integer(2, self.string(value)))
            self.data += delimited(SAMPLE, fields)
        return self.data


class PprofCLI:
    """What perf calls for each sample and at the end"""

    def __init__(self, args):
        self.args = args
        self.profile = Profile()
        self.period = 0
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

    def get_location(self, address, symbol, where):
        """The number of a location in @where, which has the file and its mapping"""
        dso = where.get("dso")
        mapping = (where.get("dso_map_start", 0), where.get("dso_map_end", 0),
                   where.get("dso_map_pgoff", 0), where.get("dso_bid", ""))
        return self.profile.location(address, self.get_name(symbol, dso), dso, mapping)

    def get_locations(self, event):
        """The numbers of the locations of a stack, innermost first"""
        if not event["callchain"]:
            return [self.get_location(event["sample"]["ip"], event.get("symbol"), event)]
        locations = []
        inner = None
        for entry in event["callchain"]:
            address = ip = entry["ip"]
            # A caller's address is where its call returns to; pprof wants one within
            # the call. Not so where the kernel or a mark, which has none, comes before.
            if ip and inner and (ip ^ inner) < 1 << 63:
                address -= 1
            locations.append(self.get_location(address, entry.get("sym", {}).get("name"), entry))
            inner = ip
        return locations

    def get_nanoseconds(self, event):
        """
        The time that a sample stands for: the period of a clock, or what the frequency
        tells. It is not known for events of which each, or each nth one, is recorded.
        """
        kind, _, config, rate, _, _, flags = ATTR.unpack_from(event["attr"])
        if kind == TYPE_SOFTWARE and config in CLOCKS:
            return event["sample"]["period"]
        return 1000000000 // rate if flags & FLAG_FREQ else 0

    def process_event(self, event):
        """A sample"""
        sample = event["sample"]
        labels = [("comm", event["comm"]), ("pid", str(sample["pid"]))]
        if "cgroup" in sample:
            labels.append(("cgroup", sample["cgroup"]))
        nanoseconds = self.get_nanoseconds(event)
        self.profile.add(self.get_locations(event), labels, nanoseconds)
        self.period = self.period or nanoseconds
        if self.first is None:
            self.first = sample["time"]
        self.last = max(self.last, sample["time"])

    def trace_end(self):
        """After the last sample"""
        # Samples have the time of a clock that began with the computer. A recording
        # ended when its file was last written.
        try:
            end = os.stat(self.args.input).st_mtime_ns
        except OSError:
            end = time.time_ns()
        duration = self.last - self.first if self.first is not None else 0
        data = self.profile.finish(self.period, end, duration)
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
    parser.add_argument("-i", "--input", default="perf.data",
                        help=argparse.SUPPRESS)

    cli = PprofCLI(parser.parse_args())

    process_event = cli.process_event

    def trace_unhandled(_event_name, _context, _fields, event):
        """Samples of tracepoints, for which perf looks here"""
        process_event(event)

    trace_end = cli.trace_end
