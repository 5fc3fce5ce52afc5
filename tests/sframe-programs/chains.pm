# SPDX-License-Identifier: GPL-2.0
#
# User stacks in the output of perf script.
use strict;
use warnings;
no warnings 'portable'; # perf is 64-bit

# in_crtstuff SAMPLE - is it in the code that gcc links to each program without tables of
# either kind? There one method or the other may be lucky.
sub in_crtstuff {
	my ($sample) = @_;

	return @{$sample->{names}} && $sample->{names}[0] =~
		/^((de)?register_tm_clones|frame_dummy|__do_global_[cd]tors_aux)$/;
}

# each_sample FILE CALL - call for each sample, with the process, the thread, the
# time, the event, the number of kernel frames, and of each frame of its user stack
# the address, the symbol, the file and the offset in it. FILE is the output of perf
# script --no-inline -F comm,tid,time,event,ip,sym, also with pid and dso,dsoff, and
# with trace, for the number of a system call. With -D --no-merge-callchains it has
# header.misc, too, and the user stacks are in records of their own, whose event is
# 'record', with the same cookie.
sub each_sample {
	my ($file, $call) = @_;
	my ($sample, $dump, $misc);

	open my $f, '<', $file or die "$file: $!\n";
	while (<$f>) {
		if (/^\t\s*([0-9a-f]+) (.*)$/) {
			if ($2 eq '(cookie)') {
				$sample->{cookie} = $1;
				next;
			}
			# Marks of perf in place of missing callers
			next if $1 eq '0';
			# The kernel's are longer than any user address.
			if (length $1 > 12) {
				$sample->{kernel}++;
				next;
			}
			push @{$sample->{ips}}, hex $1;
			# Names of functions may have parentheses, those of files seldom do.
			if ($2 =~ /^(.*) \((?!deleted\))((?:(?! \().)*(?: \(deleted\))?(?:\+0x[0-9a-f]+)?)\)$/) {
				my ($name, $dso, $off) = ($1, $2, -1);
				($dso, $off) = ($1, hex $2) if $dso =~ /^(.*)\+0x([0-9a-f]+)$/;
				push @{$sample->{names}}, $name =~ s/\+0x[0-9a-f]+$//r;
				push @{$sample->{dsos}}, $dso;
				push @{$sample->{offs}}, $off;
			} else {
				push @{$sample->{names}}, $2;
			}
		} elsif (/^[0-9 ]+ 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_\w+(?:\(IP, (0x[0-9a-f]+)\))?/) {
			$dump = 1;
			$misc = hex $1 if $1;
		} elsif (!/^[.0]/ && m,^\s*(\S.*?)\s+(?:(\d+)/\s*)?(\d+)\s+(\d+\.\d+):\s+(\S.*?):?\s*$,) {
			my ($comm, $pid, $tid, $time, $event) = ($1, $2, $3, $4, $5);
			$call->($sample) if $sample;
			$sample = { comm => $comm, pid => $pid, tid => $tid, time => $time,
				    misc => $misc, ips => [], names => [], dsos => [], offs => [], kernel => 0 };
			$sample->{cookie} = $1 if $event =~ s/^DEFERRED CALLCHAIN \[cookie: ([0-9a-f]+)\]/record/;
			$sample->{nr} = $1 if $event =~ /: NR (\d+) /;
			# Tracepoints say more after the colon.
			$sample->{event} = $event =~ s/:\s.*//r;
		} else {
			die "$file: cannot read '$_'\n" if /\S/ && !$dump && !/^(0x|\.)/;
		}
	}
	$call->($sample) if $sample;
	close $f;
}

# samples FILE - all of them
sub samples {
	my ($file) = @_;
	my @samples;

	each_sample($file, sub { push @samples, @_ });
	return @samples;
}

# complete SAMPLE - does the user stack reach the entry of the program, of the
# dynamic linker or of the thread?
sub complete {
	my ($sample) = @_;
	return @{$sample->{names}} && $sample->{names}[-1] =~ /^(_start|_dlstart|__clone)$/ ? 1 : 0;
}

1;
