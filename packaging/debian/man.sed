# References of manual pages become those to the files of the packages: pages of perf
# under their names in the package, files where it installs them. This perf is built
# without Perl. In literal text asciidoctor leaves macros for links as they are. The
# end of unwind-tables(8) is only for readers with the source.
s/^\.BR perf-record (1),$/.BR perf-record (1)/
/^\.I Documentation\//d
s/linkperf:\(perf[a-z0-9\\-]*\)\[\([1-8]\)\]/\1(\2)/g
s/\bperf\(\\-[a-z0-9\\-]*\)\?(1)/perf\\-unwind\1(1)/g
s/^\.BR perf\(-[a-z0-9-]*\)\? (1)/.BR perf-unwind\1 (1)/
s/ perf\\-unwind\\-script\\-perl(1),//
s/\(perf\\-unwind\\-dlfilter\)s(1)/\1(1)/
s/^intel\\-pt\.txt document\.$/page, perf\\-unwind\\-intel\\-pt(1)./
s|^living in tools/perf/examples/bpf/augmented_raw_syscalls\.c\.|program that perf trace loads.|
s,~/\(bin\|include\|libexec\),/usr/lib/perf\\-unwind/\1,g
