# SPDX-License-Identifier: GPL-2.0
"""
One event at a time, for scripts that show a single number of samples: those of
different events do not add up to anything
"""

import sys


# Help text of the option
HELP = "the event whose samples to take, with or without its modifiers"


class EventChoice:
    """The data that a script collects of each @wanted event: of all if none was named"""

    def __init__(self, wanted, make):
        self.wanted = wanted
        self.make = make
        self.collected = {}
        self.order = {}

    def get(self, event):
        """The data collected of this sample's event, or None if it is not wanted"""
        name = event["ev_name"]
        self.order.setdefault(name, event["ev_idx"])
        if self.wanted and not (name + ":").startswith(self.wanted + ":"):
            return None
        if name not in self.collected:
            self.collected[name] = self.make()
        return self.collected[name]

    def sorted(self):
        """The names of the events, in the order in which they were recorded"""
        return sorted(self.collected, key=self.order.get)

    def check(self):
        """End where the wanted event has no samples: its name may be misspelled."""
        if self.wanted and not self.collected:
            sys.exit("No samples of {}. The recording has: {}".format(
                self.wanted, ", ".join(self.order) or "none"))

    def first(self):
        """The data collected of the first event. A message names the others."""
        self.check()
        if not self.collected:
            return self.make()
        name, *others = self.sorted()
        if others:
            print("Showing samples of {} only; choose by --event: {}".format(
                name, ", ".join(others)), file=sys.stderr)
        return self.collected[name]
