# SPDX-License-Identifier: GPL-2.0
#
# The work of harness/figures on one file, by -v mode:
#   table        a .tsv as a table of Markdown, and where its figures come from
#   text         a .txt as an indented block, and where it comes from
#   renew        print the second file, a .tsv, with the values of the first one, the output of
#                a command
#   bench, unmodified, event-tools, deb-test   figures of what the command printed: name, row, column and
#                value, command, commit and date
BEGIN { FS = OFS = "\t" }

function wrong(what) { print "figures: " FILENAME ": " what > "/dev/stderr"; failed = 1; exit 1 }

# The fields of a .tsv after row, column and value, also those in the first line of a .txt
function check_source(command, commit, date) {
	if (command == "" || commit !~ /^(before )?[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]+\+?$/ || date !~ /^20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]$/)
		wrong("line " FNR ": no command, commit or date")
}

# note COMMAND COMMIT DATE - remember a source; one command stands for one commit
function note(command, commit, date) {
	if (command in by && by[command] != commit)
		wrong("line " FNR ": " command " of two commits, " by[command] " and " commit)
	if (!(command in by)) commands[++n_commands] = command
	by[command] = commit
	if (date > day[command]) day[command] = date
}

# A tree that had no commit yet is known by the next one ("before 1234567").
function sources(   i, line, commit) {
	for (i = 1; i <= n_commands; i++) {
		commit = by[commands[i]]
		if (!sub(/^before /, "tree before commit ", commit)) commit = "commit " commit
		line = line (i > 1 ? "; " : "") "`" commands[i] "`, " commit ", " day[commands[i]]
	}
	print "\n*" line "*"
}

function figure(name, row, column, value) { print name, row, column, value, command, commit, date }

function wanted(row,   words, i) {
	if (rows !~ /[^ ]/) return 1
	for (i = split(rows, words, / +/); i > 0; i--)
		if (words[i] == row || index(row, words[i] " ") == 1 || index(row, words[i] ",") == 1) return 1
	return 0
}

mode == "table" {
	if (FNR == 1) {
		if ($0 != "row\tcolumn\tvalue\tcommand\tcommit\tdate") wrong("its first line does not name the fields")
		next
	}
	if (/^#/) next
	if (NF != 6 || $3 == "") wrong("line " FNR ": not six fields")
	if (($1, $2) in value) wrong("line " FNR ": " $1 ", " $2 " is there twice")
	check_source($4, $5, $6)
	value[$1, $2] = $3
	if (!wanted($1)) next
	note($4, $5, $6)
	if (!($1 in row_seen)) { row_seen[$1]; row[++n_rows] = $1 }
	if (!($2 in column_seen)) { column_seen[$2]; column[++n_columns] = $2 }
}

mode == "text" {
	if (FNR == 1) {
		if (NF != 3) wrong("its first line is not command, commit and date")
		check_source($1, $2, $3)
		note($1, $2, $3)
	} else {
		print $0 == "" ? "" : "    " $0
	}
}

mode == "renew" && NR == FNR {
	by_command = $5
	if ($1 == name) { new[$2, $3] = $4; new_commit = $6; new_date = $7 }
	next
}
mode == "renew" {
	if ($4 == by_command && !/^#/) {
		if (!(($1, $2) in new)) wrong("line " FNR ": " by_command " has not printed " $1 ", " $2)
		$3 = new[$1, $2]
		$5 = new_commit
		$6 = new_date
	}
	print
}

# make bench: columns begin after the 36th character, and are of 9
mode == "bench" {
	what = substr($0, 1, 36)
	sub(/ +$/, "", what)
	n = split(substr($0, 37), v, / +/)
	if (v[1] == "") { for (i = 1; i < n; i++) v[i] = v[i + 1]; n-- }
}
mode == "bench" && /^(static|dynamic) program$/ { part = $1; sub(/ .*/, "", part) }
mode == "bench" && /^bytes per event, static/ { part = "bytes" }
mode == "bench" && /^instructions per user frame, / { part = /SFrame/ ? "sframe" : "tables" }
mode == "bench" && /^instructions for a user stack/ { part = "tracers" }

mode == "bench" && (part == "static" || part == "bytes") {
	of = part == "bytes" ? "bytes a sample" : "instructions a sample"
	if (what ~ /^(series: )?fp in place$/) figure("modes", of, "`fp`", v[2])
	if (what ~ /^(series: )?fp,defer$/) figure("modes", of, "`defer`", v[2])
	if (what ~ /^(series: )?dwarf,8192$/) figure("modes", of, "`dwarf`", v[2])
	of = "instructions of one of ten samples with the same stack, user part only"
	if (what == "of ten samples, one: fp,defer") figure("modes", of, "`defer`", v[2])
	if (what == "of ten samples, one: dwarf,8192") figure("modes", of, "`dwarf`", v[2])
	if (what ~ /^(base|series): no tracing$/) pair("system call, " part " program", v[1])
}
mode == "bench" && part == "dynamic" && what ~ /^(base|series): no tracing$/ { pair("system call, dynamic program", v[1]) }
function pair(name, count) {
	if (!(name in base)) { base[name] = count; return }
	figure("off", name, "6.12", base[name])
	figure("off", name, "with the series", count)
	figure("off", name, "difference", sprintf("%+d", count - base[name]))
}
mode == "bench" && v[1] == "base" && v[3] == "series" {
	bytes = what ~ /^sizeof/
	figure("off", what, "6.12", v[2] (bytes ? " bytes" : ""))
	figure("off", what, "with the series", v[4] (bytes ? " bytes" : ""))
	sub(/^\(/, "", v[5])
	figure("off", what, "difference", bytes ? v[5] : v[5] " %")
}
mode == "bench" && /^per user frame, (in place|deferred)/ {
	sub(/^per user /, "", what)
	figure("frame", what ", by frame pointer", "static program", v[1])
	figure("frame", what ", by frame pointer", "dynamic program", v[2])
}
mode == "bench" && /^fixed cost over in place/ {
	figure("frame", "deferred event more than one in place, depth 1", "static program", v[1])
	figure("frame", "deferred event more than one in place, depth 1", "dynamic program", v[2])
}
mode == "bench" && (part == "sframe" || part == "tables") && /^[0-9]+ +[0-9]+ / {
	split($0, v, / +/)
	of = v[1] " functions, " v[2] (v[2] == 1 ? " library" : " libraries")
	if (part == "tables") {
		figure("frames-tables", of, "warm", v[3])
		figure("frames-tables", of, "cold", v[4])
	} else {
		figure("frames-sframe", of, "warm, V2", v[3])
		figure("frames-sframe", of, "warm, V3", v[4])
		figure("frames-sframe", of, "cold, V2", v[5])
		figure("frames-sframe", of, "cold, V3", v[6])
	}
}
mode == "bench" && /^finding the SFrame table of a library/ { figure("once", "the SFrame table of a library is found", "instructions", v[n]) }
mode == "bench" && /^finding that of a file, once/ { figure("once", "the table of a file is found, in a process with 300 libraries", "instructions", v[1]) }
mode == "bench" && /^that, with 30 libraries/ { figure("once", "the same with 30 libraries", "instructions", v[1]) }
mode == "bench" && /^after mmap\(\), more for a file/ { figure("once", "the mapping of a file is compared after a change of mappings", "instructions", v[1]) }
mode == "bench" && /^a frame at the event, by a table/ {
	figure("event", "a frame, " v[4] " " v[5], "warm", v[1])
	figure("event", "a frame, " v[4] " " v[5], "cold", v[3])
}
mode == "bench" && /^an event by tables, depth 1/ {
	figure("event", "an event, depth 1", "warm", v[1])
	figure("event", "an event, depth 1", "cold", v[3])
}
mode == "bench" && /^an event of perf record, depth 1/ {
	figure("event", "an event of perf record, depth 1", "warm", v[1])
	figure("event", "an event of perf record, depth 100", "warm", v[4])
}
mode == "bench" && /^the longest walk at the event/ {
	figure("event", "an event, longest walk", "cold", v[1])
}
mode == "bench" && /^socket, close / {
	gsub(/  +/, "\t")
	split($0, v, /\t/)
	sub(/.* /, "", v[5])
	figure("off", "close a socket, 65536 files have tables", "difference", sprintf("%+.1f %%", 100 * v[5] / v[2]))
}
mode == "bench" && part == "tracers" && /^(perf|ftrace|bpf): / {
	sub(/^bpf/, "BPF", what)
	sub(/without a stack/, "none", what)
	sub(/: /, ", ", what)
	figure("tracers", what, "event, depth 10", v[1])
	figure("tracers", what, "way out, depth 10", v[2])
	figure("tracers", what, "event, depth 100", v[3])
	figure("tracers", what, "way out, depth 100", v[4])
}

# make unmodified: its table has a column for each way of recording.
mode == "unmodified" && /^# [a-z0-9+-]+ +(first|ahead|defer) +[0-9]+ of/ {
	n = split($0, v, / +/)
	of = v[3] == "first" ? "first run" : v[3] == "ahead" ? "first run, table made ahead" : "second run"
	figure("programs-now", v[2], of, v[4] " of " v[6])
	if (v[3] == "defer") figure("programs-now", v[2], "bytes a sample", v[10])
}
mode == "unmodified" && /^# \| [^ |]/ {
	n = split(substr($0, 3), v, / *\| */)
	program = v[2]
	names = split("frame pointers|first run|first run, table made ahead|second run|container|`dwarf`|cut in code made at run time|bytes a sample", columns, "|")
	for (i = 1; i <= names; i++) {
		if (v[i + 2] == "") continue
		figure("programs", program, columns[i], v[i + 2])
		if (program ~ /^(perl|gzip|sort)$/ && split(v[i + 2], sum, " of ") == 2) {
			complete[i] += sum[1]
			all[i] += sum[2]
		}
	}
}
mode == "unmodified" && /^# [0-9]+ stacks that DWARF unwinds to the end: / {
	split($0, v, /[^0-9]+/)
	of = "programs of Debian 13, by tables"
	figure("pairs", of, "DWARF unwinds to the end", v[2])
	figure("pairs", of, "cut by tables", v[3])
	figure("pairs", of, "differ after code without CFI", v[4])
	figure("pairs", of, "other frames", v[5])
}

# make assembly: the same table, and where the stacks end that are not complete by tables
mode == "assembly" && /^# \| [^ |]/ {
	n = split(substr($0, 3), v, / *\| */)
	if (v[3] != "") figure("assembly", v[2], "frame pointers", v[3])
	if (v[5] != "") figure("assembly", v[2], "by tables", v[5])
	if (v[8] != "") figure("assembly", v[2], "`dwarf`", v[8])
}
mode == "assembly" && /^# rest [a-z0-9-]+\.ahead:/ {
	split($0, v, / /)
	sub(/\.ahead:$/, "", v[3])
	figure("assembly", v[3], "where nothing is known", v[4])
	figure("assembly", v[3], "at another register", v[5] + v[6])
	figure("assembly", v[3], "at an ordinary rule", v[7])
	figure("assembly", v[3], "in no file", v[8])
}

# make event-tools: a line for each tool and program
mode == "event-tools" && /^# figure [a-z]+\.[a-z0-9.]+: [0-9]+ of [0-9]+$/ {
	split($0, v, / /)
	tool = program = v[3]
	sub(/\.[^.]*$/, "", tool)
	sub(/:$/, "", program)
	sub(/.*\./, "", program)
	of = ""
	if (tool == "bpftrace.cpu") of = "`bpftrace`, CPU"
	if (tool == "bpftrace.switches") of = "`bpftrace`, context switches"
	if (tool == "bpftrace.syscalls") of = "`bpftrace`, system calls"
	if (tool == "profile") of = "`profile-bpfcc`"
	if (tool == "offcputime") of = "`offcputime-bpfcc`, different stacks"
	if (tool == "stackcount") of = "`stackcount-bpfcc vfs_read`"
	if (tool == "ftrace") of = "ftrace, system calls"
	if (tool == "perf.debian") of = "Debian's `perf record -g`"
	if (tool == "perf.fp") of = "`perf-unwind record -g`"
	if (tool == "perf.defer") of = "`--call-graph defer`"
	if (tool == "perf.copies") of = "`--call-graph dwarf`"
	if (tool == "perf.stopped") of = "`-g` without the service"
	if (of != "") figure("event-tools", of, program, v[4] " of " v[6])
}

# make deb-test: a line for each server
mode == "deb-test" && /^# [a-z-]+: [0-9]+ of [0-9]+ stacks complete$/ {
	split($0, v, / /)
	sub(/:$/, "", v[2])
	figure("servers", v[2], "complete", v[3] " of " v[5])
}

END {
	if (failed) exit 1
	if (mode == "unmodified" && all[4] > 0) {
		of = "complete stacks of perl, gzip and sort"
		if (all[1] > 0) figure("modes", of, "`fp`", complete[1] " of " all[1])
		figure("modes", of, "`defer`", complete[4] " of " all[4])
		if (all[6] > 0) figure("modes", of, "`dwarf`", complete[6] " of " all[6])
	}
	if (mode == "table") {
		if (!n_rows) wrong("no row")
		line = "| |"
		rule = "|---|"
		for (j = 1; j <= n_columns; j++) { line = line " " column[j] " |"; rule = rule "---|" }
		print line
		print rule
		for (i = 1; i <= n_rows; i++) {
			line = "| " row[i] " |"
			for (j = 1; j <= n_columns; j++)
				line = line ((row[i], column[j]) in value ? " " value[row[i], column[j]] : "") " |"
			print line
		}
		sources()
	}
	if (mode == "text") sources()
}
