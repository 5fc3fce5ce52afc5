# SPDX-License-Identifier: GPL-2.0
#
# Front door; the work is done by the scripts in harness/.

CMD ?=
T ?=
MIN ?= 10
V ?= 1
SIGNOFF ?=
OUT ?= build/series

.PHONY: help tree refresh kernel perf unwind-tables shell run test soak unmodified series prove check bench clean distclean root

help:
	@echo 'make run              boot the guest, record a program, show its merged stacks'
	@echo "make run CMD='...'    run any command in the guest"
	@echo 'make shell            interactive guest'
	@echo 'make test [T=name]    run all suites, or one'
	@echo 'make soak [MIN=10]    load and tracers of all kinds, MIN minutes on each of two kernels'
	@echo 'make tree             the kernel tree: base plus one commit per step of the series'
	@echo 'make refresh          write the commits of the tree back to the series'
	@echo 'make kernel           build the kernel with the series'
	@echo 'make perf             build perf with the series'
	@echo 'make unwind-tables    build the service that makes tables for files'
	@echo 'make bench            count instructions per event, beside base and in-place unwinding'
	@echo 'make check            is the series in order, does checkpatch agree'
	@echo "make series [V=n] [SIGNOFF='Name <mail>'] [OUT=dir]"
	@echo '                      write the series for mailing, with its cover letter'
	@echo 'make unmodified       stacks of programs as the distribution built them, beside dwarf'
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
	@harness/run $(if $(CMD),'$(subst ','\'',$(CMD))',demo)

test: tree
	@harness/test $(T)

soak: tree
	@harness/build feature debug perf unwindprof
	@harness/soak '$(MIN)'

unmodified: tree
	@harness/build feature perf unwind-tables
	@ALL=1 harness/unmodified cc1 cc1plus perl python3 gzip xz sort git

series: tree
	@harness/export '$(OUT)' '$(V)' '$(SIGNOFF)'

prove: tree
	@harness/prove

check: root
	@harness/check

bench: tree
	@harness/bench

clean:
	@harness/clean

distclean:
	@harness/clean all
