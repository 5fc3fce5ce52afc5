#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Write perf.data files with deferred user callchains, so that their processing can
be tested on any kernel, with exact expectations.

Usage: deferred_callchain_data.py <case> <file>
       deferred_callchain_data.py mangle <file> <seed> <output>
       deferred_callchain_data.py mangle-summary <file> <seed> <output>
       deferred_callchain_data.py truncate <file> <size> <output>
"""

import random
import struct
import sys

MISC_KERNEL = 1
MISC_USER = 2
# Of perf inject, in samples
MISC_MISSING = 15 << 8
MISC_CUT = 1 << 12
MISC_OUTERMOST = 1 << 13
# Why others are cut
MISC_NO_RULE = 1 << 8
MISC_CORRUPT = 3 << 8
MISC_DEPTH = 4 << 8
MISC_UNCHECKED = 10 << 8
MISC_REFUSED = 5 << 8

RECORD_LOST = 2
RECORD_COMM = 3
RECORD_EXIT = 4
RECORD_SAMPLE = 9
RECORD_CALLCHAIN_DEFERRED = 22
RECORD_HEADER_ATTR = 64
RECORD_FINISHED_ROUND = 68
RECORD_ID_INDEX = 69
# Of a perf that is newer than this one
RECORD_FUTURE = 200

SAMPLE_IP = 1 << 0
SAMPLE_TID = 1 << 1
SAMPLE_TIME = 1 << 2
SAMPLE_CALLCHAIN = 1 << 5
SAMPLE_CPU = 1 << 7
SAMPLE_RAW = 1 << 10
SAMPLE_IDENTIFIER = 1 << 16

CONTEXT_KERNEL = (1 << 64) - 128
CONTEXT_USER = (1 << 64) - 512
CONTEXT_USER_DEFERRED = (1 << 64) - 640

ATTR_COMM = 1 << 9
ATTR_TASK = 1 << 13
ATTR_SAMPLE_ID_ALL = 1 << 18
ATTR_DEFER_CALLCHAIN = 1 << 38
ATTR_DEFER_OUTPUT = 1 << 39

# Numbers of the header features: host name, OS release, perf's version, machine,
# CPUs (available, online), description and ID of the CPU
FEATURES = {3: 'host', 4: '6.12.0', 5: '6.12', 6: 'x86_64', 7: (2, 2), 8: 'cpu', 9: 'id'}

# Of a perf that is newer than this one
FEATURE_FUTURE = 200

SW_TASK_CLOCK = 1
SW_PAGE_FAULTS = 2
SW_DUMMY = 9

# One address per kernel function, and two user stacks
K1, K2 = 0xffffffff81000100, 0xffffffff81000200
U1, U2, U3 = 0x401100, 0x401200, 0x401300
V1, V2 = 0x501100, 0x501200

C1, C2, C3, C4 = 0x300000001, 0x300000002, 0x500000001, 0x700000001
C5, C6 = 0x700000002, 0x900000001


class Data:
    """The events of one file."""

    def __init__(self, endian='<', sample_id_all=True, raw=False, dummy=False, pipe=False,
                 defer=True, config=None, attr_tail=b''):
        self.endian = endian
        self.sample_id_all = sample_id_all
        self.raw = raw
        self.pipe = pipe
        # Bytes of a newer perf at the end of an attribute
        self.attr_tail = attr_tail
        self.sample_type = (SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU |
                            SAMPLE_CALLCHAIN | SAMPLE_IDENTIFIER)
        if raw:
            self.sample_type |= SAMPLE_RAW
        flags = ATTR_DEFER_CALLCHAIN if defer else 0
        config = SW_TASK_CLOCK if config is None else config
        side = (ATTR_DEFER_OUTPUT if defer else 0) | ATTR_COMM | ATTR_TASK
        self.sections = dict(FEATURES)
        self.summary = b''
        # (config, flags, ids)
        if dummy:
            self.attrs = [(config, flags, [11, 12]), (SW_DUMMY, side, [21, 22])]
            self.side_id = 21
        else:
            self.attrs = [(config, flags | side, [11, 12])]
            self.side_id = 11
        self.events = []

    def pack(self, fmt, *args):
        return struct.pack(self.endian + fmt, *args)

    def attr(self, config, flags):
        """struct perf_event_attr, version 8."""
        if self.sample_id_all:
            flags |= ATTR_SAMPLE_ID_ALL
        bits = struct.pack('<Q', flags)
        if self.endian == '>':
            bits = bytes(int(f'{b:08b}'[::-1], 2) for b in bits)
        size = 136 + len(self.attr_tail)
        head = self.pack('IIQQQQ', 1, size, config, 1000, self.sample_type, 4)
        return (head + bits).ljust(136, b'\0') + self.attr_tail

    def event(self, type_, misc, body, size=None):
        """Any event; size lies about it if given."""
        size = 8 + len(body) if size is None else size
        self.events.append(self.pack('IHH', type_, misc, size) + body)

    def trailer(self, tid, time, cpu):
        if not self.sample_id_all:
            return b''
        return (self.pack('II', tid, tid) + self.pack('Q', time) + self.pack('II', cpu, 0) +
                self.pack('Q', self.side_id + cpu))

    def comm(self, tid, name, time=1, cpu=0):
        name = name.encode().ljust(16, b'\0')
        self.event(RECORD_COMM, MISC_USER,
                   self.pack('II', tid, tid) + name + self.trailer(tid, time, cpu))

    def exit(self, tid, time, cpu=0):
        self.event(RECORD_EXIT, 0, self.pack('IIIIQ', tid, tid, tid, tid, time) +
                   self.trailer(tid, time, cpu))

    def sample(self, tid, time, chain, cpu=0, misc=MISC_KERNEL, ip=K1, nr=None,
               raw_size=12):
        body = self.pack('QQIIQIIQ', 11 + cpu, ip, tid, tid, time, cpu, 0,
                         len(chain) if nr is None else nr)
        body += self.pack(f'{len(chain)}Q', *chain)
        if self.raw:
            body += self.pack('I', raw_size) + bytes(raw_size)
        self.event(RECORD_SAMPLE, misc, body)

    def deferred(self, tid, time, cookie, *kernel, cpu=0):
        """A sample in the kernel that waits for its user callchain."""
        self.sample(tid, time, [CONTEXT_KERNEL, *kernel, CONTEXT_USER_DEFERRED, cookie], cpu)

    def user_hit(self, tid, time, cookie, ip, cpu=0):
        """A sample in user space that waits for its callchain."""
        self.sample(tid, time, [CONTEXT_USER_DEFERRED, cookie], cpu, MISC_USER, ip)

    def record(self, tid, time, cookie, *ips, cpu=0, nr=None, size=None, misc=0):
        """A deferred callchain."""
        body = self.pack('QQ', cookie, len(ips) if nr is None else nr)
        body += self.pack(f'{len(ips)}Q', *ips) + self.trailer(tid, time, cpu)
        if size is not None:
            body = body[:size - 8]
        self.event(RECORD_CALLCHAIN_DEFERRED, MISC_USER | misc, body)

    def add_summary(self, samples, complete, ends=(), missing=0, empty=0, other=0,
                    unchecked=0, version=3, flags=2, max_stack=127, magic=b'PERFUSER'):
        """The header's summary of user stacks; ends are (count, reason, file)."""
        body = self.magic(magic) + self.pack('IIIIQQQQQQ', version, flags, max_stack,
                                             len(ends), samples, complete, unchecked,
                                             missing, empty, other)
        for count, reason, file in ends:
            name = file + b'\0' * (8 - len(file) % 8)
            body += self.pack('QII', count, reason, len(name)) + name
        self.summary = body

    def round(self):
        self.event(RECORD_FINISHED_ROUND, 0, b'')

    def id_index(self):
        """The CPU of each ID, which shows whether all of them were recorded."""
        ids = [(id_, cpu) for _, _, ids in self.attrs for cpu, id_ in enumerate(ids[:1])]
        body = self.pack('Q', len(ids))
        for id_, cpu in ids:
            body += self.pack('QQQq', id_, cpu, cpu, -1)
        self.event(RECORD_ID_INDEX, 0, body)

    def write(self, path):
        size = sum(map(len, self.events))
        with open(path, 'wb') as out:
            out.write(self.pipe_header() if self.pipe else self.file_header(size))
            out.writelines(self.events)
            if not self.pipe:
                out.write(self.features(out.tell()))
                out.write(self.summary)

    def magic(self, name=b'PERFILE2'):
        return self.pack('Q', struct.unpack('<Q', name)[0])

    def pipe_header(self):
        head = self.magic() + self.pack('Q', 16)
        for config, flags, ids in self.attrs:
            body = self.attr(config, flags) + self.pack(f'{len(ids)}Q', *ids)
            head += self.pack('IHH', RECORD_HEADER_ATTR, 0, 8 + len(body)) + body
        return head

    def file_header(self, data_size):
        ids = b''
        attrs = b''
        for config, flags, attr_ids in self.attrs:
            attrs += self.attr(config, flags) + self.pack('QQ', 104 + len(ids),
                                                          len(attr_ids) * 8)
            ids += self.pack(f'{len(attr_ids)}Q', *attr_ids)
        attrs_at = 104 + len(ids)
        data_at = attrs_at + len(attrs)
        features = sum(1 << number for number in self.sections)
        summary = (data_at + data_size + len(self.features(0)), len(self.summary))
        words = [features >> bit & (1 << 64) - 1 for bit in range(0, 256, 64)]
        attr_size = 136 + len(self.attr_tail) + 16
        return (self.magic() + self.pack('QQQQQQQQ', 104, attr_size, attrs_at, len(attrs),
                                         data_at, data_size, *summary) +
                self.pack('QQQQ', *words) + ids + attrs)

    def features(self, at):
        index = b''
        bodies = b''
        at += 16 * len(self.sections)
        for _, value in sorted(self.sections.items()):
            if isinstance(value, bytes):
                body = value
            elif isinstance(value, str):
                text = value.encode() + b'\0'
                body = self.pack('I', 64) + text.ljust(64, b'\0')
            else:
                body = self.pack('II', *value)
            index += self.pack('QQ', at + len(bodies), len(body))
            bodies += body
        return index + bodies


def merge(data):
    """All samples find their record, on this or the other CPU, before or after them."""
    data.comm(10, 'ten')
    data.comm(20, 'twenty')
    data.deferred(10, 100, C1, K1, K2)
    data.deferred(20, 110, C2, K1, cpu=1)
    data.deferred(10, 120, C1, K2)
    data.record(10, 130, C1, U1, U2, cpu=1)
    data.round()
    # Not deferred at all
    data.sample(10, 140, [CONTEXT_KERNEL, K1, CONTEXT_USER, V1, V2])
    data.record(20, 150, C2, V1, V2, cpu=1)
    # Later sample of an entry that was already answered
    data.deferred(10, 160, C1, K1)
    data.user_hit(10, 170, C3, U1)
    data.record(10, 180, C3, U1, U3)
    data.round()
    # From the other buffer, so later in the file but earlier in time
    data.record(20, 200, C4, V2)
    data.deferred(20, 190, C4, K1, K2, cpu=1)
    return data


def missing():
    """Samples that never find a record, for each of the reasons."""
    data = Data(dummy=True)
    data.comm(10, 'ten')
    data.comm(20, 'twenty')
    data.comm(30, 'thirty')
    # Lost: the thread went on
    data.deferred(10, 100, C1, K1)
    data.user_hit(10, 110, C3, U2)
    data.record(10, 120, C3, U2, U3)
    # Lost: the thread exited
    data.deferred(30, 130, C2, K2)
    data.exit(30, 140)
    # Still in the kernel at the end
    data.deferred(20, 150, C4, K1, K2)
    data.user_hit(20, 160, C4, V1)
    return data


def some_lost(samples, lost, overflow=False):
    """Of many samples, some have lost their record."""
    data = Data(dummy=True)
    data.comm(10, 'ten')
    for i in range(samples):
        data.deferred(10, 100 + 10 * i, C1 + (i << 33), K1)
        if i >= lost:
            data.record(10, 105 + 10 * i, C1 + (i << 33), U1, U2)
    if overflow:
        data.event(RECORD_LOST, 0, data.pack('QQ', data.side_id, lost) +
                   data.trailer(10, 200 + 10 * samples, 0))
    return data


def blocked():
    """Nothing is lost, but the task does not return."""
    data = Data(dummy=True)
    data.comm(10, 'ten')
    data.deferred(10, 100, C1, K1)
    return data


def late(big=0):
    """In a pipe, a record that comes seconds later, or after very much other data."""
    data = Data(dummy=True, pipe=True, raw=bool(big))
    data.comm(10, 'ten')
    data.comm(20, 'twenty')
    data.deferred(10, 100, C1, K1)
    data.sample(20, 2000000000, [CONTEXT_KERNEL, K1, CONTEXT_USER, V1])
    data.sample(20, 3000000000, [CONTEXT_KERNEL, K2, CONTEXT_USER, V1], raw_size=65004)
    # All the same, so that they don't take memory here
    data.events += data.events[-1:] * big
    data.record(10, 4000000000, C1, U1, U2)
    data.sample(20, 5000000000, [CONTEXT_KERNEL, K1, CONTEXT_USER, V2])
    return data


def mismatch():
    """Same cookie but another thread, same thread but another cookie, and twice."""
    data = Data(dummy=True)
    data.comm(10, 'ten')
    data.comm(20, 'twenty')
    data.deferred(10, 100, C1, K1)
    data.record(20, 110, C1, V1)
    data.record(10, 120, C2, U3)
    data.deferred(20, 130, C3, K1)
    # Two events got it: the deeper one wins, even if it comes second
    data.record(20, 140, C3, V1)
    data.record(20, 150, C3, V1, V2)
    data.deferred(20, 160, C3, K2)
    return data


def order():
    """Events between a sample and its record must not be seen early."""
    data = Data(dummy=True)
    data.comm(10, 'before')
    data.deferred(10, 100, C1, K1)
    data.comm(10, 'after', 110)
    data.sample(10, 120, [CONTEXT_KERNEL, K2, CONTEXT_USER, V1])
    data.record(10, 130, C1, U1)
    return data


def invalid():
    """Records that promise more than they have, and callchains that are odd."""
    data = Data()
    data.comm(10, 'ten')
    data.deferred(10, 100, C1, K1)
    data.record(10, 110, C1, U1, nr=2)
    data.record(10, 111, C1, U1, nr=1 << 61)
    data.record(10, 112, C1, U1, nr=(1 << 64) - 1)
    data.record(10, 113, C1, U1, U2, size=16)
    data.record(10, 114, C1, U1, U2, size=8)
    data.record(10, 115, C1, U1, U2, size=24)
    # 8 bytes more than announced are no reason to refuse it
    data.record(10, 120, C1, U1, U2, nr=1)
    # A value in the range of the markers ends the callchain
    data.deferred(10, 130, C2, K1)
    data.record(10, 140, C2, U1, CONTEXT_USER_DEFERRED, U2)
    data.deferred(10, 150, C3, K1)
    data.record(10, 160, C3, (1 << 64) - 1)
    # An empty one leaves the sample's own address
    data.user_hit(10, 170, C4, U3)
    data.record(10, 180, C4)
    # A marker without cookie is not a deferred callchain
    data.sample(10, 190, [CONTEXT_USER_DEFERRED], misc=MISC_USER, ip=U1)
    return data


def no_id_all():
    """Records that don't know their thread."""
    data = Data(sample_id_all=False)
    data.comm(10, 'ten')
    data.comm(20, 'twenty')
    data.deferred(10, 100, C1, K1)
    data.deferred(20, 110, C2, K1)
    data.record(20, 120, C2, V1)
    data.record(10, 130, C1, U1)
    data.deferred(10, 140, C3, K2)
    return data


def one_cpu():
    """Recorded on one of two CPUs, and the thread returned on the other."""
    data = Data(dummy=True)
    data.id_index()
    data.comm(10, 'ten')
    data.deferred(10, 100, C1, K1)
    data.deferred(10, 110, C3, K1)
    data.record(10, 120, C3, U1)
    return data


def cut(data):
    """User callchains that reach the outermost frame, and others."""
    data.comm(10, 'ten')
    data.comm(20, 'twenty')
    # Nothing has been seen to be complete yet
    data.deferred(10, 100, C1, K1)
    data.record(10, 110, C1, U1, U2)
    data.user_hit(10, 120, C2, U1)
    data.record(10, 130, C2, U1, U2, U3, misc=MISC_OUTERMOST)
    data.deferred(10, 140, C3, K1, K2)
    data.record(10, 150, C3, U1, U2)
    # In the sample: all that the task had been unwound to, or walked in place
    data.sample(10, 160, [CONTEXT_KERNEL, K1, CONTEXT_USER, U1, U2],
                misc=MISC_KERNEL | MISC_OUTERMOST)
    data.sample(10, 170, [CONTEXT_KERNEL, K1, CONTEXT_USER, U1])
    # No record, or nothing in it
    data.user_hit(20, 180, C4, V1)
    data.deferred(20, 190, C5, K1)
    data.deferred(10, 200, C6, K2)
    data.record(10, 210, C6)
    return data


def unchecked():
    """Frame pointers that nothing checked led to the outermost frame."""
    data = Data(dummy=True)
    data.comm(10, 'ten')
    data.deferred(10, 100, C1, K1)
    data.record(10, 110, C1, U1, U3, misc=MISC_OUTERMOST | MISC_UNCHECKED)
    data.deferred(10, 120, C2, K1)
    data.record(10, 130, C2, U1, U2, misc=MISC_OUTERMOST)
    data.deferred(10, 140, C3, K1)
    data.record(10, 150, C3)
    data.sample(10, 160, [CONTEXT_KERNEL, K1, CONTEXT_USER, U1],
                misc=MISC_KERNEL | MISC_OUTERMOST | MISC_UNCHECKED)
    return data


def cut_known():
    """By the header the kernel marks chains; this perf does not know all of the marks."""
    data = Data(dummy=True)
    data.sections[FEATURE_FUTURE] = b'future!\0'
    data.add_summary(1001, 1000 - 22, unchecked=6, missing=2, empty=1, other=4,
                     ends=[(5, MISC_NO_RULE, b'/lib/\x1b[2Jlibfoo.so'),
                           (3, MISC_CORRUPT, b'[no file]'), (2, MISC_DEPTH, b'/bin/bar')])
    return cut(data)


def bad_summary(complete=10, **kwargs):
    """A summary that is not valid, after others that are."""
    data = Data(dummy=True)
    data.add_summary(10, complete, **kwargs)
    return merge(data)


def deep(data, depth=127, defer=True):
    """Both parts of a callchain are long, by default as long as they can be."""
    kernel = [K1 + 16 * i for i in range(depth)]
    user = [U1 + 16 * i for i in range(depth)]
    data.comm(10, 'ten')
    if defer:
        data.deferred(10, 100, C1, *kernel)
        data.record(10, 110, C1, *user)
    else:
        data.sample(10, 100, [CONTEXT_KERNEL, *kernel, CONTEXT_USER, *user])
    return data


def newer(tail=bytes(16), **kwargs):
    """Recorded by a perf with longer attributes and other events of its own."""
    data = Data(dummy=True, attr_tail=tail, **kwargs)
    data.event(RECORD_FUTURE, 0, bytes(24))
    return merge(data)


def stray_attr():
    """An attribute among the events of a file, where only a pipe has it."""
    data = Data()
    data.event(RECORD_HEADER_ATTR, 0, data.attr(*data.attrs[0][:2]) + data.pack('Q', 31))
    data.deferred(10, 100, C1, K1)
    data.record(10, 110, C1, U1)
    return data


def other_bits():
    """Bits of header.misc that mean nothing in samples of ordinary events."""
    data = Data(defer=False)
    data.comm(10, 'ten')
    for time, misc in (100, MISC_OUTERMOST), (110, MISC_CUT), (120, MISC_MISSING):
        data.sample(10, time, [CONTEXT_KERNEL, K1, CONTEXT_USER, U1], misc=MISC_KERNEL | misc)
    return data


CASES = {
    'merge': lambda: merge(Data(dummy=True)),
    'merge-one-event': lambda: merge(Data()),
    'merge-pipe': lambda: merge(Data(dummy=True, pipe=True)),
    'merge-raw': lambda: merge(Data(raw=True)),
    'merge-big-endian': lambda: merge(Data(endian='>', raw=True)),
    'page-faults': lambda: merge(Data(dummy=True, config=SW_PAGE_FAULTS)),
    'page-faults-cut': lambda: cut(Data(dummy=True, config=SW_PAGE_FAULTS)),
    'missing': missing,
    'lost-2': lambda: some_lost(100, 2, overflow=True),
    'few-lost': lambda: some_lost(300, 2),
    'lost-1-of-6': lambda: some_lost(6, 1),
    'blocked': blocked,
    'late': late,
    'late-big': lambda: late(big=4500),
    'mismatch': mismatch,
    'order': order,
    'invalid': invalid,
    'no-id-all': no_id_all,
    'one-cpu': one_cpu,
    'cut': lambda: cut(Data(dummy=True)),
    'cut-pipe': lambda: cut(Data(dummy=True, pipe=True)),
    'cut-big-endian': lambda: cut(Data(endian='>')),
    'cut-known': cut_known,
    'unchecked': unchecked,
    'bad-sum': lambda: bad_summary(missing=1),
    'bad-sum-low': lambda: bad_summary(complete=9),
    'bad-magic': lambda: bad_summary(magic=b'tp_event'),
    'bad-version': lambda: bad_summary(version=1),
    'bad-flags': lambda: bad_summary(flags=6),
    'newer': newer,
    'newer-pipe': lambda: newer(pipe=True),
    'newer-big-endian': lambda: newer(endian='>'),
    'newer-big-endian-pipe': lambda: newer(endian='>', pipe=True),
    'newer-unknown': lambda: newer(tail=bytes(15) + b'\1'),
    'newer-unknown-pipe': lambda: newer(tail=bytes(15) + b'\1', pipe=True),
    'stray-attr': stray_attr,
    'other-bits': other_bits,
    'deep': lambda: deep(Data(dummy=True)),
    'deep-in-place': lambda: deep(Data(defer=False), depth=60, defer=False),
    'deeper': lambda: deep(Data(), depth=510),
    'deeper-in-place': lambda: deep(Data(defer=False), depth=510, defer=False),
}


def events_range(data):
    """Where the events are, without headers, attributes and features."""
    endian = '<' if data[:8] == b'PERFILE2' else '>'
    size, = struct.unpack_from(endian + 'Q', data, 8)
    if size != 16:
        start, length = struct.unpack_from(endian + 'QQ', data, 40)
        return start, start + length

    start = size
    while True:
        type_, _, length = struct.unpack_from(endian + 'IHH', data, start)
        if type_ != RECORD_HEADER_ATTR:
            return start, len(data)
        start += length


def mangle(path, seed, out):
    """Change some words of the events, mostly to odd values."""
    rand = random.Random(seed)
    with open(path, 'rb') as file:
        data = bytearray(file.read())
    odd = [0, 1, 8, 22, 0xffff, (1 << 64) - 1, 1 << 61, CONTEXT_USER_DEFERRED, C1]
    start, end = events_range(data)
    for _ in range(rand.randint(1, 4)):
        at = rand.randrange(start, end - 7) & ~7
        if rand.random() < 0.5:
            data[at:at + 8] = struct.pack('<Q', rand.choice(odd))
        else:
            data[at + rand.randrange(8)] = rand.randrange(256)
    with open(out, 'wb') as file:
        file.write(data)


def mangle_summary(path, seed, out):
    """Change some bytes of the summary of user stacks, or of its place."""
    rand = random.Random(seed)
    with open(path, 'rb') as file:
        data = bytearray(file.read())
    start, size = struct.unpack_from('<QQ', data, 56)
    for _ in range(rand.randint(1, 4)):
        at = rand.choice([rand.randrange(start, start + size), rand.randrange(56, 72)])
        data[at] = rand.choice([0, 1, 0x7f, 0xff, rand.randrange(256)])
    with open(out, 'wb') as file:
        file.write(data)


def main(args):
    if len(args) == 4 and args[0] == 'mangle':
        mangle(args[1], int(args[2]), args[3])
    elif len(args) == 4 and args[0] == 'mangle-summary':
        mangle_summary(args[1], int(args[2]), args[3])
    elif len(args) == 4 and args[0] == 'truncate':
        with open(args[1], 'rb') as file, open(args[3], 'wb') as out:
            out.write(file.read(int(args[2])))
    elif len(args) == 2 and args[0] in CASES:
        CASES[args[0]]().write(args[1])
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main(sys.argv[1:])
