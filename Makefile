# SPDX-License-Identifier: GPL-2.0
#
# Front door; the work is done by the scripts in harness/.

CMD ?=
PROGRAM ?=
NAME ?=
T ?=
MIN ?= 10
V ?= 1
SIGNOFF ?=
OUT ?= $(or $(build),build)/series
DATA ?=
BUILD ?=
WORK ?=
FLAME ?=
CONFIG ?= generic
BASE ?= 6.12

# Targets for another base than 6.12 so far
ifneq ($(BASE),6.12)
  ifneq ($(filter-out root tree refresh check series clean kernel perf unwind-tables shell run test,$(or $(MAKECMDGOALS),help)),)
    $(error BASE=$(BASE) goes with make tree, refresh, check, series, clean, kernel, perf, unwind-tables, shell, run and test)
  endif
  build := build/$(BASE)
endif

.PHONY: help tree refresh kernel perf unwind-tables shell run flame test deb deb-test repo update update-all soak hostile \
	first-run fuzz fuzz-walks mutate litmus unmodified assembly assembly-steps event-tools switches jits recipes series prove check bench cost figures picture \
	clean distclean root

help:
	@echo 'make run              boot the guest, record programs, show their stacks, draw a flame graph'
	@echo "make run PROGRAM='...'"
	@echo '                      record any command of a Debian 13, and draw its flame graph'
	@echo "make run CMD='...'    run any command in the guest"
	@echo 'make flame [DATA=perf.data] [FLAME=build/flame.html]'
	@echo '                      draw a recording as a page for any browser'
	@echo 'make shell            interactive guest'
	@echo 'make deb [CONFIG=cloud]'
	@echo '                      build Debian packages of the kernel, perf and the tools, with the'
	@echo '                      configuration generic (the default), cloud, host or a file'
	@echo 'make deb-test [T=secure]  install, use, update and remove the packages on a Debian 13 in QEMU;'
	@echo '                      secure: only boot them with Secure Boot'
	@echo 'make repo [REPO=dir] [URL=where] [KEY=key]'
	@echo '                      add the packages of make deb to a signed apt repository'
	@echo 'make update [CONFIG=cloud] [REPO=dir] [URL=where] [KEY=key] [MAILTO=address]'
	@echo '                      publish packages of a newer source that apt offers, if it is newer'
	@echo 'make update-all [BUILD=build]'
	@echo '                      apply the series to each source that apt offers, and build and boot that'
	@echo 'make test [T=name]    run all suites, or one'
	@echo 'make soak [MIN=10]    run loads and tracers of all kinds together, MIN minutes on two kernels'
	@echo 'make hostile [MIN=30] have one user attack the service in all ways at once, beside others'
	@echo 'make fuzz [MIN=10]    run the suites that fuzz, MIN minutes for each fuzzer'
	@echo 'make fuzz-walks [MIN=30] walk random stacks in random worlds on the debug kernel'
	@echo 'make mutate [NAME=mutation] break rules of the kernel one by one: does a test notice?'
	@echo 'make litmus           check what is read without locks against the memory model'
	@echo 'make tree             the kernel tree: base plus one commit per step of the series'
	@echo 'make refresh          write the commits of the tree back to the series'
	@echo 'make kernel           build the kernel with the series'
	@echo 'make perf             build perf with the series'
	@echo 'make unwind-tables    build the service that makes tables for files'
	@echo 'make bench            count instructions per event, against the base and unwinding in place'
	@echo "make cost WORK='command' [MODES='defer service ...'] [MIN=10]"
	@echo '                      what tracing costs a load on this machine, in percent of its time'
	@echo 'make figures          write the figures of the last runs to the pages'
	@echo 'make picture          record nginx in two ways: the picture of the README'
	@echo 'make check            check that the series is in order, and run checkpatch on it'
	@echo "make series [V=n] [SIGNOFF='Name <mail>'] [OUT=dir] [BASE=7.3]"
	@echo '                      write the series for mailing, with its cover letter; BASE=7.3: the'
	@echo '                      one for mainline (docs/mainline.md)'
	@echo 'make first-run [RUNS=]  how complete stacks are without the service, 20 runs each'
	@echo 'make unmodified       record programs as the distribution built them, in seven ways (an hour)'
	@echo 'make assembly         record programs whose time goes to assembly without call frame information'
	@echo 'make assembly-steps   are the rules for it right? these programs, instruction by instruction'
	@echo "make event-tools      the same by tools that take stacks at the event: bpftrace, bcc's, Debian's perf"
	@echo 'make switches         record programs that switch stacks: OCaml, Go, coroutines'
	@echo 'make jits             record what compilers at run time make: V8, Java, PHP, Erlang ...'
	@echo 'make recipes          try the viewers of recordings (docs/looking.md), hotspot and pprof among them'
	@echo 'make prove            apply, build and check the exported series step by step'
	@echo 'make clean            delete objects and logs'
	@echo 'make distclean        delete build/ altogether, tree included (the cache stays)'

root:
	@harness/toolroot

tree: root
	@harness/tree

refresh:
	@harness/refresh

kernel: tree
	@harness/build feature

perf: tree
	@harness/build perf

unwind-tables: tree
	@harness/build unwind-tables

shell: kernel perf unwind-tables
	@harness/run

run: kernel perf unwind-tables
	@harness/run $(if $(CMD),'$(subst ','\'',$(CMD))',demo $(if $(PROGRAM),'$(subst ','\'',$(PROGRAM))'))
ifeq ($(CMD),)
	@harness/flame || echo 'make run: all but the flame graph is done'
endif

flame: perf
	@harness/flame $(if $(DATA),'$(DATA)') $(if $(FLAME),'$(FLAME)')

test: tree
	@harness/test $(T)

deb: tree
	@harness/deb '$(CONFIG)'

deb-test: root
	@harness/deb-test $(T)

repo: root
	@harness/repo

update: root
	@harness/update '$(CONFIG)'

update-all: root
	@harness/update-all $(BUILD)

soak: tree
	@harness/build feature debug perf unwindprof unwind-tables
	@harness/soak '$(MIN)'

hostile: tree
	@harness/build feature perf unwind-tables
	@harness/toolroot programs
	@harness/hostile $(if $(filter command environment,$(firstword $(origin MIN))),'$(MIN)')

fuzz: tree
	@UNWIND_FUZZ=$$(($(MIN) * 60)) harness/test sframe unwind-table unwind-table-kernel

fuzz-walks: tree
	@harness/build debug
	@harness/fuzz-walks debug $$((60 * $(if $(filter command environment,$(firstword $(origin MIN))),$(MIN),30)))

mutate: tree
	@harness/mutate $(NAME)

litmus: tree
	@harness/litmus

unmodified: tree
	@harness/build feature perf unwind-tables
	@harness/toolroot forky
	@harness/toolroot programs
	@MODES='fp first defer ahead container dwarf pairs' harness/unmodified cc1 cc1plus perl python3 \
		gzip xz sort git clang qemu openssl postgres nginx redis node java java-plain

assembly: tree
	@harness/build feature perf unwind-tables
	@harness/toolroot programs
	@COMMAND='make assembly' MODES='fp ahead dwarf' harness/unmodified x264 x265 dav1d djpeg cjpeg nettle-hash factor openssl

assembly-steps: tree
	@harness/toolroot programs
	@harness/assembly-steps

event-tools: tree
	@harness/build feature perf unwind-tables
	@harness/toolroot programs
	@COPIES=yes harness/event-tools perl python3 cc1 gzip postgres

switches: tree
	@harness/build feature perf unwind-tables
	@harness/switches

jits: tree
	@harness/build feature perf unwind-tables
	@harness/jits

first-run: tree
	@harness/build feature perf unwind-tables
	@UNWIND_TIMEOUT=7200 harness/run "'$(CURDIR)/tests/completeness/first' $(or $(RUNS),20)"

recipes: tree
	@harness/toolroot hotspot
	@harness/toolroot pprof
	@harness/toolroot samply
	@harness/test recipes

series: tree
	@harness/export '$(OUT)' '$(V)' '$(SIGNOFF)'

prove: tree
	@harness/prove

check: root
	@harness/check

bench: tree
	@harness/bench

cost:
	@MIN='$(MIN)' harness/cost '$(subst ','\'',$(WORK))'

figures:
	@harness/figures

picture: kernel perf unwind-tables
	@harness/toolroot programs
	@harness/picture

clean:
	@harness/clean

distclean:
	@harness/clean all
