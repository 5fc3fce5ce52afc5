# SPDX-License-Identifier: GPL-2.0
#
# What perf script says of user stacks.
use strict;
use warnings;
no warnings 'portable'; # perf is 64-bit

# in_crtstuff SAMPLE - is it in what gcc links to each program without tables of
# either kind? There one method or the other may be lucky.
sub in_crtstuff {
	my ($sample) = @_;

	return @{$sample->{names}} && $sample->{names}[0] =~
		/^((de)?register_tm_clones|frame_dummy|__do_global_[cd]tors_aux)$/;
}

# samples FILE - of each sample the thread, the time, the event, the addresses
# and the symbols of its user stack. FILE is the output of
# perf script --no-inline -F comm,tid,time,event,ip,sym
sub samples {
	my ($file) = @_;
	my @samples;

	open my $f, '<', $file or die "$file: $!\n";
	while (<$f>) {
		if (/^\t\s*([0-9a-f]+) (.*)$/) {
			# The kernel's are longer than any user address.
			next if length $1 > 12;
			push @{$samples[-1]{ips}}, hex $1;
			push @{$samples[-1]{names}}, $2;
		} elsif (/^\s*(\S.*?)\s+(\d+)\s+(\d+\.\d+):\s+(\S+):\s/) {
			push @samples, { comm => $1, tid => $2, time => $3, event => $4,
					 ips => [], names => [] };
		} else {
			die "$file: cannot read '$_'\n" if /\S/;
		}
	}
	return @samples;
}

# complete SAMPLE - does the user stack reach the entry of the program, of the
# dynamic linker or of the thread?
sub complete {
	my ($sample) = @_;
	return @{$sample->{names}} && $sample->{names}[-1] =~ /^(_start|_dlstart|__clone)$/ ? 1 : 0;
}

1;
