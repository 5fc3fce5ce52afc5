// SPDX-License-Identifier: GPL-2.0
/*
 * Pointers to functions that the loader sets: which of them lead to functions of the file
 * itself, and which to functions of others that do not return. The latter are known only by
 * their names.
 */

#include <elf.h>

#include "follow.h"

static const char * const noreturn_names[] = {
	"abort", "exit", "_exit", "_Exit", "quick_exit", "__assert_fail", "__assert",
	"__assert_perror_fail", "__stack_chk_fail", "__fortify_fail", "__chk_fail",
	"longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", "pthread_exit",
	"__cxa_throw", "__cxa_rethrow", "__cxa_bad_cast", "__cxa_bad_typeid",
	"__cxa_throw_bad_array_new_length", "__cxa_pure_virtual", "__cxa_deleted_virtual",
	"_Unwind_Resume", "_ZSt9terminatev", "err", "errx", "verr", "verrx",
	"__libc_start_main", "__errno_fail", "obstack_alloc_failed_handler",
	"g_assertion_message", "g_assertion_message_expr", "g_abort", "xalloc_die", "xexit",
	"__clang_call_terminate", "_ZSt10unexpectedv",
	/* Of perl, ruby and gcc, for their modules */
	"_Z11fancy_abortPKciS0_",
	"Perl_croak", "Perl_croak_nocontext", "Perl_croak_no_modify", "Perl_croak_sv",
	"Perl_croak_xs_usage", "rb_raise", "rb_exc_raise", "rb_memerror", "rb_out_of_int",
	"rb_sys_fail", "rb_sys_fail_str", "rb_unexpected_type", "rb_error_arity",
	"rb_error_frozen_object", "rb_bug",
	/* Of libpng and Qt */
	"png_error", "_ZNK14QMessageLogger5fatalEPKcz",
};

static bool name_is_noreturn(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(noreturn_names); i++) {
		if (!strcmp(name, noreturn_names[i]))
			return true;
	}
	/* std::__throw_...() */
	return !strncmp(name, "_ZSt", 4) && strstr(name, "__throw_");
}

/* The meaning of a symbol: an address, UT_IMPORT_NO_RETURN, or NONE */
static __u32 resolve(const struct ut_elf *elf, __u64 symbol, __u64 strings)
{
	char name[64];
	Elf64_Sym sym;
	size_t len;

	if (!ut_elf_read_addr(elf, symbol, &sym, sizeof(sym)))
		return NONE;
	if (sym.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(sym.st_info) == STT_FUNC)
		return sym.st_value < UT_IMPORT_NO_RETURN ? sym.st_value : NONE;
	/* A name that is cut off is none of these; the last ones may end where the file does. */
	for (len = sizeof(name); len >= 8; len -= 8) {
		if (ut_elf_read_addr(elf, strings + sym.st_name, name, len)) {
			name[len - 1] = 0;
			return name_is_noreturn(name) ? UT_IMPORT_NO_RETURN : NONE;
		}
	}
	return NONE;
}

#define RELA_AT_ONCE	1024

struct imports {
	struct ut_build	*build;
	__u64		symbols;
	__u64		strings;
};

/* Where a pointer of DT_JMPREL or DT_RELA leads */
static int note_import(void *data, const void *record)
{
	const struct imports *imports = data;
	const Elf64_Rela *rela = record;
	__u32 type = ELF64_R_TYPE(rela->r_info), target;
	__u64 symbol = imports->symbols + ELF64_R_SYM(rela->r_info) * sizeof(Elf64_Sym);

	if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
		return 0;
	if (!ut_work(&imports->build->follow_work, 2 * UT_WORK_READ))
		return -E2BIG;
	target = resolve(&imports->build->elf, symbol, imports->strings);
	return target == NONE ? 0 : map_add(&imports->build->imports, rela->r_offset, target);
}

/* Find where pointers to functions lead, once. */
int ut_imports_find(struct ut_build *build)
{
	const struct ut_elf *elf = &build->elf;
	struct imports imports = { .build = build };
	struct ut_records records = {
		.elf = elf, .work = &build->follow_work, .size = sizeof(Elf64_Rela),
		.max = RELA_AT_ONCE, .each = note_import, .data = &imports,
	};
	int err;

	if (build->has_imports)
		return 0;
	build->has_imports = true;
	if (!ut_elf_dynamic(elf, DT_SYMTAB, &imports.symbols) ||
	    !ut_elf_dynamic(elf, DT_STRTAB, &imports.strings))
		return 0;
	err = ut_elf_each_dynamic(&records, DT_JMPREL, DT_PLTRELSZ);
	return err ? err : ut_elf_each_dynamic(&records, DT_RELA, DT_RELASZ);
}
