// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/PID/sframe_tables: the SFrame tables that prctl() added, for programs that
 * checkpoint a process and restore it.
 */

#include <linux/mm_types.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/sframe.h>

#include "sframe_mm.h"

/**
 * struct sframe_list - An open file
 * @mm:		Address space, which is not kept from going, or NULL
 * @in_use:	A read is under way, which has a user's reference to @mm
 * @table:	The table whose turn it is
 * @text:	Its code
 *
 * @table and @text are copies, as the tables may change while the list is read.
 */
struct sframe_list {
	struct mm_struct	*mm;
	bool			in_use;
	struct {
		unsigned long	start;
		unsigned long	end;
	} table, text;
};

/*
 * The first table whose code starts at @pos or later. As that is the end of what
 * was listed before, no two lines overlap, whatever becomes of the tables.
 */
static struct sframe_list *list_find(struct sframe_list *list, loff_t pos)
{
	struct sframe_mm *sm = sframe_mm_of(list->mm);
	struct sframe_entry *entry;

	if (!sm)
		return NULL;

	guard(spinlock)(&sm->lock);

	for (entry = sframe_entry_first(sm, pos); entry;
	     entry = sframe_entry_next(entry)) {
		if (!entry->added || entry->attached ||
		    entry->code.start < pos)
			continue;
		list->table.start = entry->sec.start;
		list->table.end = entry->sec.end;
		list->text.start = entry->code.start;
		list->text.end = entry->code.end;
		return list;
	}
	return NULL;
}

static void *list_start(struct seq_file *m, loff_t *pos)
{
	struct sframe_list *list = m->private;

	list->in_use = list->mm && mmget_not_zero(list->mm);
	return list->in_use ? list_find(list, *pos) : NULL;
}

static void *list_next(struct seq_file *m, void *v, loff_t *pos)
{
	struct sframe_list *list = v;

	*pos = list->text.end;
	return list_find(list, *pos);
}

static void list_stop(struct seq_file *m, void *v)
{
	struct sframe_list *list = m->private;

	if (list->in_use)
		mmput(list->mm);
	list->in_use = false;
}

static int list_show(struct seq_file *m, void *v)
{
	const struct sframe_list *list = v;

	seq_put_hex_ll(m, NULL, list->text.start, 8);
	seq_put_hex_ll(m, "-", list->text.end, 8);
	seq_put_hex_ll(m, " ", list->table.start, 8);
	seq_put_hex_ll(m, "-", list->table.end, 8);
	seq_putc(m, '\n');
	return 0;
}

static const struct seq_operations list_ops = {
	.start	= list_start,
	.next	= list_next,
	.stop	= list_stop,
	.show	= list_show,
};

/**
 * sframe_list_open - Open /proc/PID/sframe_tables
 * @file:	File that is being opened
 * @mm:		Address space that the opener may look at, with a reference by
 *		mmgrab() that is the file's now, whatever is returned; or NULL,
 *		for a list without tables
 *
 * Return: 0, or -ENOMEM if there is no memory.
 */
int sframe_list_open(struct file *file, struct mm_struct *mm)
{
	struct sframe_list *list;

	list = __seq_open_private(file, &list_ops, sizeof(*list));
	if (!list) {
		if (mm)
			mmdrop(mm);
		return -ENOMEM;
	}

	list->mm = mm;
	return 0;
}

/**
 * sframe_list_release - The last reference to such a file is gone
 * @inode:	Its inode
 * @file:	The file
 *
 * Return: 0.
 */
int sframe_list_release(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;
	struct sframe_list *list = m->private;

	if (list->mm)
		mmdrop(list->mm);
	return seq_release_private(inode, file);
}
