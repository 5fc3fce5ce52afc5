# SPDX-License-Identifier: GPL-2.0
#
# Which samples are a program's, and where its stacks end. Files of a
# distribution have no symbols _start or clone3, so the offset decides: where the table of the
# file says that there is no caller. The kernel's own word for it is not asked. unwind-tables is
# in PATH.
use strict;
use warnings;

my (@roots, %ranges, %fdes, %member, %comm_of, %seen);

# program COMM ROOT... - the program of the samples, and the directories in which its files are
# looked for, in this order
sub program {
	($comm_of{main}, @roots) = @_;
	@roots = ('') if !@roots;
}

# is_of_program SAMPLE - is it of one of the program's processes, since it has
# the program's name? Threads often have names of their own.
sub is_of_program {
	my ($sample) = @_;
	my $pid = $sample->{pid};

	$member{$pid} = 1 if $sample->{comm} eq $comm_of{main};
	return $member{$pid};
}

# path_of DSO - the file, '' where it is none that can be read
sub path_of {
	my ($dso) = @_;

	return '' if $dso !~ m,^/, || $dso =~ m,^/(memfd:|dev/zero|SYSV), || $dso =~ /\(deleted\)$/;
	for my $root (@roots) {
		return "$root$dso" if -f "$root$dso";
	}
	return '';
}

# is_jit DSO - is it memory that code was written to?
sub is_jit {
	my ($dso) = @_;

	# perf takes anonymous memory for code whose symbols are in a file perf-PID.map.
	return scalar $dso =~ m,^(//anon|\[(anon|heap|stack|JIT).*|/(memfd:|dev/zero).*|.*/perf-\d+\.map)$,;
}

# show_table FILE [OFFSET] - read its table; that there is none is no error here
sub show_table {
	open my $f, '-|', 'sh', '-c', 'exec unwind-tables show --rows "$@" 2> /dev/null', 'sh', @_
		or die "sh: $!\n";
	return $f;
}

# kind_of RULE - the register that a walk needs there and may not have
sub kind_of {
	my ($rule) = @_;

	return 'unknown' if $rule eq 'unknown';
	return 'frame pointer' if $rule =~ /^cfa (?:rbp|\*\(rbp)/;
	return 'register' if $rule =~ /^cfa (?!rsp|\*\(rsp)/;
	return $1 if $rule =~ /(?:^|, )(outermost|new thread)$/;
	return '';
}

# ranges FILE KIND - of offsets that are outermost, or that a new thread begins at, or have
# rules of another kind, in ascending order
sub ranges {
	my ($path, $kind) = @_;

	if (!$ranges{$path}) {
		my %found = map { $_ => [] } ('outermost', 'new thread', 'unknown', 'register', 'frame pointer');
		if ($path) {
			my $f = show_table($path);
			while (<$f>) {
				my ($start, $end, $rule) = /^0x([0-9a-f]+)-0x([0-9a-f]+) (.*)$/ or next;
				my $kind = kind_of($rule) or next;
				push @{$found{$kind}}, [hex $start, hex $end];
			}
			close $f;
		}
		$ranges{$path} = \%found;
	}
	return $ranges{$path}{$kind};
}

# is_in OFFSET RANGES - is it in one of them?
sub is_in {
	my ($at, $ranges) = @_;
	my ($low, $high) = (0, scalar @$ranges);

	while ($low < $high) {
		my $middle = int(($low + $high) / 2);
		if ($ranges->[$middle][1] <= $at) {
			$low = $middle + 1;
		} else {
			$high = $middle;
		}
	}
	return $low < @$ranges && $ranges->[$low][0] <= $at;
}

# fdes FILE - ranges of offsets that .eh_frame describes, in ascending order. The table is not
# asked: it has more.
sub fdes {
	my ($path) = @_;
	my (@segments, @fdes);

	return [] if !$path;
	open my $f, '-|', 'readelf', '-lW', '-wf', $path or die "readelf: $!\n";
	while (<$f>) {
		if (/^\s+LOAD\s+0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x([0-9a-f]+) /) {
			push @segments, [hex $1, hex $2, hex $3];
		} elsif (/ FDE .* pc=([0-9a-f]+)\.\.([0-9a-f]+)$/) {
			my ($start, $end) = (hex $1, hex $2);
			my ($in) = grep { $start >= $_->[1] && $start < $_->[1] + $_->[2] } @segments or next;
			push @fdes, [map { $_ - $in->[1] + $in->[0] } $start, $end];
		}
	}
	close $f;
	return [sort { $a->[0] <=> $b->[0] } @fdes];
}

# is_without_cfi SAMPLE FRAME - is the frame in code that .eh_frame does not describe?
sub is_without_cfi {
	my ($sample, $frame) = @_;
	my $path = path_of($sample->{dsos}[$frame]);

	return !is_in($sample->{offs}[$frame], $fdes{$path} //= fdes($path));
}

# ends_at_register SAMPLE - does it end below the topmost frame, where the caller can
# be found only with a register other than SP and FP? That is so while ld.so
# binds a function.
sub ends_at_register {
	my ($sample) = @_;

	return @{$sample->{ips}} > 1 && $sample->{offs}[-1] >= 0 &&
		rule_at($sample->{dsos}[-1], $sample->{offs}[-1] - 1) =~ /^cfa (?!rsp|rbp|\*\((?:rsp|rbp))/;
}

# ends_at_unknown SAMPLE - does it end where the table cannot express the rule of .eh_frame?
sub ends_at_unknown {
	my ($sample) = @_;
	my $callers = @{$sample->{ips}} - 1;

	return $callers >= 0 && $sample->{offs}[-1] >= 0 &&
		rule_at($sample->{dsos}[-1], $sample->{offs}[-1] - !!$callers) eq 'unknown';
}

# ends_with SAMPLE KIND - has the end of its stack such a rule?
sub ends_with {
	my ($sample, $kind) = @_;
	my $nr = @{$sample->{ips}};

	return 0 if !$nr || $sample->{offs}[-1] < 0;
	# A return address may be the one after the last instruction.
	my $at = $nr > 1 ? $sample->{offs}[-1] - 1 : $sample->{offs}[-1];
	return is_in($at, ranges(path_of($sample->{dsos}[-1]), $kind));
}

# ends_at_entry SAMPLE - does its stack reach where the program or its thread begins?
sub ends_at_entry { ends_with($_[0], 'outermost') }

# ends_in_new_thread SAMPLE - it may be where a thread begins: in it, as in the old one,
# the system call that makes a thread returns there. The old one has a caller there; in
# the new one nothing was sampled before.
sub ends_in_new_thread { @{$_[0]{ips}} == 1 && ends_with($_[0], 'new thread') }
sub is_first_of_thread { !$seen{$_[0]{tid}}++ }

# why_cut SAMPLE - the reason at the end of its stack: no known rule; a caller that only a
# register or the frame pointer leads to, both of which may be lost by then; a rule, which came
# later; or no file
sub why_cut {
	my ($sample) = @_;

	return 'no file' if $sample->{offs}[-1] < 0 || !path_of($sample->{dsos}[-1]);
	for my $kind ('unknown', 'register', 'frame pointer') {
		return $kind if ends_with($sample, $kind);
	}
	return 'rule';
}

# rule_at DSO OFFSET - the rule of the table there
sub rule_at {
	my ($dso, $off) = @_;
	my $path = path_of($dso);

	return 'no file' if !$path;
	my $f = show_table($path, sprintf '%x', $off);
	my ($rule) = <$f>;
	close $f;
	return 'not in the table' if !$rule;
	return $rule =~ s/^\S+ (.*)\n/$1/r;
}

1;
