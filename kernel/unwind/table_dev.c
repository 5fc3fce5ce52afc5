// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/unwind_tables: profilers hand in tables of rules for the files that
 * processes have mapped. See Documentation/userspace-api/unwind-tables.rst.
 *
 * A table lives as long as the descriptor that it came through, including copies of
 * that in other processes. Walks find it by the file, under RCU.
 */

#include <linux/capability.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include <asm/sframe.h>

#include "sframe_mm.h"
#include "table.h"
#include "table_file.h"

#include <trace/events/unwind.h>

/* Tables of a descriptor, and what they are attached to */
#define TABLE_MAX_TABLES	BIT(16)
#define TABLE_MAX_ATTACHED	BIT(18)

/*
 * The caller can be told that there is no memory. So nothing is killed to get some,
 * in the caller's memory cgroup or elsewhere.
 */
#define TABLE_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Somebody else may run after this much of a table was copied in. */
#define TABLE_COPY		SZ_1M

/* Of all tables together; kernel.unwind_table_max_kb */
static unsigned int table_max_kb = 256 * 1024;
static atomic64_t table_bytes;
static atomic_t table_count;
static atomic64_t table_serial;

/**
 * struct dev_table - A table that came through a descriptor
 * @table:	The table
 * @attached:	Where it is attached; protected by the lock of table_file.c
 */
struct dev_table {
	struct unwind_table	*table;
	struct list_head	attached;
};

/**
 * struct dev_file - What came through one descriptor
 * @owner:	Of all attachments
 * @lock:	Protects the rest. @nr and @bytes are read without it
 * @tables:	struct dev_table by number
 * @nr:		How many there are
 * @bytes:	Memory of them
 */
struct dev_file {
	struct unwind_owner	owner;
	/* See above. */
	struct mutex		lock;
	struct xarray		tables;
	unsigned int		nr;
	u64			bytes;
};

static struct ctl_table table_sysctls[] = {
	{
		.procname	= "unwind_table_max_kb",
		.data		= &table_max_kb,
		.maxlen		= sizeof(table_max_kb),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
};

/* Account for memory that is about to be used. Returns false if it is too much. */
static bool table_charge(size_t size)
{
	u64 max = (u64)READ_ONCE(table_max_kb) * 1024;

	if (atomic64_add_return(size, &table_bytes) <= max)
		return true;
	atomic64_sub(size, &table_bytes);
	return false;
}

/* Copy what user space hands in. That may be large, and the caller may be killed. */
static void *copy_table(u64 addr, size_t len)
{
	const char __user *from = u64_to_user_ptr(addr);
	size_t done, n;
	void *data;

	data = kvmalloc(len, TABLE_GFP);
	if (!data)
		return ERR_PTR(-ENOMEM);

	for (done = 0; done < len; done += n) {
		n = min_t(size_t, len - done, TABLE_COPY);
		if (fatal_signal_pending(current)) {
			kvfree(data);
			return ERR_PTR(-EINTR);
		}
		if (copy_from_user(data + done, from + done, n)) {
			kvfree(data);
			return ERR_PTR(-EFAULT);
		}
		cond_resched();
	}
	return data;
}

/* Most that a table can be long */
#define TABLE_MAX_LEN							\
	(sizeof(struct unwind_table_header) +				\
	 UNWIND_TABLE_MAX_RUNS * sizeof(struct unwind_table_run) +	\
	 (UNWIND_TABLE_MAX_PAGES + 1) * sizeof(u32) +			\
	 UNWIND_TABLE_MAX_ROWS * sizeof(struct unwind_table_row) +	\
	 UNWIND_TABLE_MAX_RULES * sizeof(struct unwind_table_rule))

/* Check what was handed in. Its memory is accounted for, or it is refused. */
static struct unwind_table *take_table(const struct unwind_table_make *arg)
{
	struct unwind_table *table;
	const char *why = NULL;
	void *data;

	data = copy_table(arg->data, arg->len);
	if (IS_ERR(data))
		return data;

	table = unwind_table_make(data, arg->len, &why);
	kvfree(data);
	if (!IS_ERR(table) && !table_charge(table->size)) {
		unwind_table_free(table);
		table = ERR_PTR(-ENOSPC);
		why = "more than kernel.unwind_table_max_kb";
	}
	if (IS_ERR(table)) {
		trace_unwind_table(0, 0, arg->len, why);
		return table;
	}

	table->serial = atomic64_inc_return(&table_serial);
	atomic_inc(&table_count);
	trace_unwind_table(table->serial, table->nr_rows, table->size, "made");
	return table;
}

static void free_table(struct unwind_table *table)
{
	trace_unwind_table(table->serial, table->nr_rows, table->size, "gone");
	atomic64_sub(table->size, &table_bytes);
	atomic_dec(&table_count);
	unwind_table_free(table);
}

/* Detach a table from all files; it can be freed after a grace period. */
static void detach_table(struct dev_table *dev)
{
	while (unwind_files_detach_some(&dev->attached))
		cond_resched();
}

static long dev_make(struct dev_file *df, const void __user *argp, size_t size)
{
	struct unwind_table_make arg;
	struct dev_table *dev;
	u32 nr;
	int ret;

	ret = copy_struct_from_user(&arg, sizeof(arg), argp, size);
	if (ret)
		return ret;
	if (arg.flags)
		return -EINVAL;
	if (arg.len > TABLE_MAX_LEN)
		return -E2BIG;

	dev = kzalloc(sizeof(*dev), TABLE_GFP);
	if (!dev)
		return -ENOMEM;
	INIT_LIST_HEAD(&dev->attached);
	dev->table = take_table(&arg);
	if (IS_ERR(dev->table)) {
		ret = PTR_ERR(dev->table);
		kfree(dev);
		return ret;
	}

	scoped_guard(mutex, &df->lock) {
		ret = xa_alloc(&df->tables, &nr, dev,
			       XA_LIMIT(1, TABLE_MAX_TABLES), TABLE_GFP);
		if (!ret) {
			WRITE_ONCE(df->nr, df->nr + 1);
			WRITE_ONCE(df->bytes, df->bytes + dev->table->size);
			return nr;
		}
	}
	free_table(dev->table);
	kfree(dev);
	return ret == -EBUSY ? -ENOSPC : ret;
}

/* Is the inode as it was when the table was made from it? */
static int check_inode(const struct inode *inode,
		       const struct unwind_attach *attach)
{
	struct timespec64 mtime = inode_get_mtime(inode);

	/* A memfd is never open for writing, but those who write have it mapped. */
	if (inode_is_open_for_write(inode) ||
	    mapping_writably_mapped(inode->i_mapping))
		return -ETXTBSY;
	if (attach->size != i_size_read(inode) ||
	    !timespec64_equal(&attach->mtime, &mtime))
		return -ESTALE;
	return 0;
}

/* Attach to the file, or the vDSO, that is mapped at an address. */
static int attach_file(struct mm_struct *mm, unsigned long address,
		       struct unwind_attach *attach, struct list_head *list)
{
	struct vm_area_struct *vma = vma_lookup(mm, address);
	const struct inode *inode = NULL;
	struct unwind_file *file;
	const void *key = NULL;
	int ret;

	mmap_assert_locked(mm);

	if (!vma || !(vma->vm_flags & VM_EXEC))
		return -EFAULT;
	if (sframe_arch_is_vdso(vma)) {
		key = sframe_arch_vdso_key(mm);
	} else if (vma->vm_file) {
		inode = file_inode(vma->vm_file);
		if (!S_ISREG(inode->i_mode))
			return -ENOEXEC;
		key = inode;
		ret = check_inode(inode, attach);
		if (ret)
			return ret;
	}
	if (!key)
		return -ENOEXEC;

	/* The mapping keeps the inode meanwhile. */
	file = unwind_file_get(inode, key, SFRAME_ADD_GFP);
	if (IS_ERR_OR_NULL(file))
		return -ENOMEM;
	ret = unwind_file_attach(file, attach, list);
	unwind_file_put(file);
	return ret;
}

/* Attach to anonymous memory of one process. */
static int attach_memory(struct mm_struct *mm,
			 const struct unwind_table_attach *arg,
			 struct unwind_attach *attach, struct list_head *list)
{
	unsigned long start = arg->address, end = arg->address + arg->len;
	struct sframe_entry *entry;
	struct sframe_mm *sm;

	mmap_assert_locked(mm);

	if (!sframe_arch_mm_ok(mm))
		return -EINVAL;
	if (sframe_check_mapped(mm, start, end, VM_EXEC))
		return vma_lookup(mm, start) ? -EINVAL : -EFAULT;
	if (!sframe_is_anonymous(mm, start, end))
		return -EINVAL;

	sm = sframe_mm_get(mm, SFRAME_ADD_GFP);
	entry = sframe_entry_alloc(SFRAME_ADD_GFP);
	if (!sm || !entry)
		goto no_memory;
	entry->code.start = start;
	entry->code.end = end;
	entry->code.delta = arg->offset - start;
	entry->code.file = unwind_file_new(SFRAME_ADD_GFP);
	if (!entry->code.file)
		goto no_memory;

	return sframe_entry_attach(sm, entry, attach, list);

no_memory:
	sframe_entry_put(entry);
	return -ENOMEM;
}

/* The memory of a process that the caller may look into */
static struct mm_struct *attach_mm(int pidfd)
{
	struct task_struct *task;
	struct mm_struct *mm;
	unsigned int flags;

	task = pidfd_get_task(pidfd, &flags);
	if (IS_ERR(task))
		return ERR_CAST(task);

	if (perfmon_capable())
		mm = get_task_mm(task);
	else
		mm = mm_access(task, PTRACE_MODE_READ_REALCREDS);
	put_task_struct(task);
	return mm ?: ERR_PTR(-ESRCH);
}

/* With the mmap lock held, which another process may keep us waiting for */
static int attach_locked(struct dev_file *df, struct mm_struct *mm,
			 const struct unwind_table_attach *arg,
			 struct unwind_attach *attach)
{
	struct dev_table *dev;

	guard(mutex)(&df->lock);

	dev = xa_load(&df->tables, arg->table);
	if (!dev)
		return -ENOENT;
	if (atomic_read(&df->owner.attached) >= TABLE_MAX_ATTACHED)
		return -ENOSPC;

	attach->table = dev->table;
	if (arg->len)
		return attach_memory(mm, arg, attach, &dev->attached);
	return attach_file(mm, arg->address, attach, &dev->attached);
}

static int check_attach(const struct unwind_table_attach *arg)
{
	if (arg->flags || arg->reserved || arg->mtime_nsec >= NSEC_PER_SEC)
		return -EINVAL;
	if (!arg->len)
		return arg->offset ? -EINVAL : 0;
	if (arg->file_size || arg->mtime_sec || arg->mtime_nsec ||
	    arg->address + arg->len < arg->address ||
	    arg->address + arg->len > TASK_SIZE_MAX)
		return -EINVAL;
	return 0;
}

static long dev_attach(struct dev_file *df, const void __user *argp,
		       size_t size)
{
	struct unwind_table_attach arg;
	struct unwind_attach *attach;
	struct mm_struct *mm;
	int ret;

	ret = copy_struct_from_user(&arg, sizeof(arg), argp, size);
	if (ret)
		return ret;
	ret = check_attach(&arg);
	if (ret)
		return ret;

	mm = attach_mm(arg.pidfd);
	if (IS_ERR(mm))
		return PTR_ERR(mm);
	attach = kzalloc(sizeof(*attach), TABLE_GFP);
	if (!attach) {
		mmput(mm);
		return -ENOMEM;
	}
	attach->size = arg.file_size;
	attach->mtime.tv_sec = arg.mtime_sec;
	attach->mtime.tv_nsec = arg.mtime_nsec;
	attach->owner = &df->owner;

	ret = -EINTR;
	if (!mmap_read_lock_killable(mm)) {
		ret = attach_locked(df, mm, &arg, attach);
		mmap_read_unlock(mm);
	}
	mmput(mm);
	if (ret)
		kfree(attach);
	return ret;
}

static long dev_drop(struct dev_file *df, unsigned long nr)
{
	struct dev_table *dev;

	scoped_guard(mutex, &df->lock) {
		dev = xa_erase(&df->tables, nr);
		if (!dev)
			return -ENOENT;
		WRITE_ONCE(df->nr, df->nr - 1);
		WRITE_ONCE(df->bytes, df->bytes - dev->table->size);
	}

	detach_table(dev);
	synchronize_rcu();
	free_table(dev->table);
	kfree(dev);
	return 0;
}

static long table_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct dev_file *df = file->private_data;
	void __user *argp = (void __user *)arg;
	u32 size = 0;

	BUILD_BUG_ON(offsetofend(struct unwind_table_make, len) !=
		     UNWIND_TABLE_MAKE_SIZE_VER0);
	BUILD_BUG_ON(offsetofend(struct unwind_table_attach, reserved) !=
		     UNWIND_TABLE_ATTACH_SIZE_VER0);

	if (!file_ns_capable(file, &init_user_ns, CAP_PERFMON) &&
	    !file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN))
		return -EPERM;

	if (cmd == UNWIND_TABLE_DROP)
		return dev_drop(df, arg);

	/* Later kernels may have more fields; then the command differs in size. */
	if (_IOC_TYPE(cmd) != UNWIND_TABLE_IOC || _IOC_DIR(cmd) != _IOC_WRITE)
		return -ENOTTY;
	if (get_user(size, (u32 __user *)argp))
		return -EFAULT;
	if (size > PAGE_SIZE)
		return -E2BIG;

	switch (_IOC_NR(cmd)) {
	case _IOC_NR(UNWIND_TABLE_MAKE):
		if (size < UNWIND_TABLE_MAKE_SIZE_VER0)
			return -EINVAL;
		return dev_make(df, argp, size);
	case _IOC_NR(UNWIND_TABLE_ATTACH):
		if (size < UNWIND_TABLE_ATTACH_SIZE_VER0)
			return -EINVAL;
		return dev_attach(df, argp, size);
	default:
		return -ENOTTY;
	}
}

static int table_open(struct inode *inode, struct file *file)
{
	struct dev_file *df;

	if (!perfmon_capable())
		return -EPERM;

	df = kzalloc(sizeof(*df), TABLE_GFP);
	if (!df)
		return -ENOMEM;
	mutex_init(&df->lock);
	xa_init_flags(&df->tables, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	unwind_files_open();
	file->private_data = df;
	return nonseekable_open(inode, file);
}

static int table_release(struct inode *inode, struct file *file)
{
	struct dev_file *df = file->private_data;
	struct dev_table *dev;
	unsigned long nr;

	xa_for_each(&df->tables, nr, dev)
		detach_table(dev);
	/* All of them at once */
	if (df->nr)
		synchronize_rcu();
	xa_for_each(&df->tables, nr, dev) {
		free_table(dev->table);
		kfree(dev);
		cond_resched();
	}
	xa_destroy(&df->tables);
	kfree(df);
	unwind_files_close();
	return 0;
}

#ifdef CONFIG_PROC_FS
static void table_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct dev_file *df = file->private_data;
	struct unwind_file_counts counts;

	seq_printf(m, "tables:\t%u\n", READ_ONCE(df->nr));
	seq_printf(m, "bytes:\t%llu\n", READ_ONCE(df->bytes));
	seq_printf(m, "attached:\t%d\n", atomic_read(&df->owner.attached));

	unwind_files_counts(&counts);
	seq_printf(m, "all_tables:\t%u\n", atomic_read(&table_count));
	seq_printf(m, "all_bytes:\t%llu\n", (u64)atomic64_read(&table_bytes));
	seq_printf(m, "walks:\t%llu\n", counts.walks);
	seq_printf(m, "walks_complete:\t%llu\n", counts.complete);
	seq_printf(m, "frames:\t%llu\n", counts.frames);
	seq_printf(m, "frames_by_fp:\t%llu\n", counts.fp_frames);
}
#endif

static const struct file_operations table_fops = {
	.owner		= THIS_MODULE,
	.open		= table_open,
	.release	= table_release,
	.unlocked_ioctl	= table_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
#ifdef CONFIG_PROC_FS
	.show_fdinfo	= table_show_fdinfo,
#endif
};

static struct miscdevice table_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "unwind_tables",
	.fops	= &table_fops,
	/* Capabilities decide. */
	.mode	= 0666,
};

static int __init table_init(void)
{
	u64 max = (u64)totalram_pages() << PAGE_SHIFT >> 12;

	table_max_kb = min_t(u64, table_max_kb, max);
	register_sysctl_init("kernel", table_sysctls);
	return misc_register(&table_device);
}
device_initcall(table_init);
