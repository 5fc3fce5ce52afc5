// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/unwind_tables: profilers hand in tables of rules for the files that
 * processes have mapped. See Documentation/userspace-api/unwind-tables.rst.
 *
 * A table lives as long as the descriptor that it came through, including copies of
 * that in other processes. Walks find it by the file, under RCU.
 */

#include <linux/capability.h>
#include <linux/dcache.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kdev_t.h>
#include <linux/memfd.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/mutex.h>
#include <linux/oom.h>
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include <asm/unwind_user.h>

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
 * @next:	Where the search for a free number begins
 * @nr:		How many there are
 * @bytes:	Memory of them
 */
struct dev_file {
	struct unwind_owner	owner;
	/* See above. */
	struct mutex		lock;
	struct xarray		tables;
	u32			next;
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

/*
 * Account for memory that is about to be used; or, if @size is negative, that is not
 * used any more. Returns false if it is too much.
 */
static bool table_charge(ssize_t size)
{
	u64 max = (u64)READ_ONCE(table_max_kb) * 1024;
	unsigned int tries;

	for (tries = 0; tries < 2; tries++) {
		if (atomic64_add_return(size, &table_bytes) <= max || size < 0)
			return true;
		atomic64_sub(size, &table_bytes);
		/* Tables that were dropped just now still count. */
		if (!tries)
			rcu_barrier();
	}
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
	const char *why = "more than kernel.unwind_table_max_kb";
	void *data;

	/* So is the copy, of which every thread may have one. */
	if (!table_charge(arg->len)) {
		table = ERR_PTR(-ENOSPC);
		goto refused;
	}
	data = copy_table(arg->data, arg->len);
	if (IS_ERR(data)) {
		table_charge(-arg->len);
		return data;
	}
	table = unwind_table_make(data, arg->len, table_charge, &why);
	kvfree(data);
	table_charge(-arg->len);
	if (IS_ERR(table))
		goto refused;

	table->serial = atomic64_inc_return(&table_serial);
	atomic_inc(&table_count);
	trace_unwind_table(table->serial, table->nr_rows, table->size, "made");
	return table;

refused:
	trace_unwind_table(0, 0, arg->len, why);
	return table;
}

static void free_table_rcu(struct rcu_head *rcu)
{
	struct unwind_table *table = container_of(rcu, struct unwind_table, rcu);

	table_charge(-table->size);
	unwind_table_free(table);
}

/* Walks may still be using it. */
static void free_table(struct unwind_table *table)
{
	trace_unwind_table(table->serial, table->nr_rows, table->size, "gone");
	atomic_dec(&table_count);
	call_rcu(&table->rcu, free_table_rcu);
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
		/*
		 * A number that was dropped is used again as late as possible: what
		 * somebody else still has of it does not mean the next table.
		 */
		ret = xa_alloc_cyclic(&df->tables, &nr, dev,
				      XA_LIMIT(1, TABLE_MAX_TABLES), &df->next,
				      TABLE_GFP);
		if (ret >= 0) {
			WRITE_ONCE(df->nr, df->nr + 1);
			WRITE_ONCE(df->bytes, df->bytes + dev->table->size);
			return nr;
		}
	}
	free_table(dev->table);
	kfree(dev);
	return ret == -EBUSY ? -ENOSPC : ret;
}

/* Does the argument say which file was read? */
static bool names_file(const struct unwind_table_attach *arg)
{
	size_t start = offsetof(struct unwind_table_attach, file_size);

	return arg->flags & UNWIND_TABLE_ATTACH_FD ||
	       memchr_inv((void *)arg + start, 0, sizeof(*arg) - start);
}

/* Is this the inode of the file that was read? */
static int check_identity(const struct unwind_table_attach *arg,
			  const struct inode *inode)
{
	dev_t dev = inode->i_sb->s_dev;

	if (arg->flags & UNWIND_TABLE_ATTACH_FD) {
		CLASS(fd_raw, f)(arg->file);

		if (fd_empty(f))
			return -EBADF;
		return file_inode(fd_file(f)) == inode ? 0 : -ESTALE;
	}
	return MAJOR(dev) == arg->dev_major && MINOR(dev) == arg->dev_minor &&
	       inode->i_ino == arg->ino &&
	       inode->i_generation == arg->ino_generation ? 0 : -ESTALE;
}

/*
 * Files without a name, such as memfds, are opened without being counted as open for
 * writing. That nobody can write to them is only certain if they are sealed.
 */
static bool is_unsealed(struct file *file)
{
	long seals;

	if (!(file_inode(file)->i_sb->s_flags & SB_KERNMOUNT))
		return false;
	seals = memfd_fcntl(file, F_GET_SEALS, 0);
	return seals < 0 || !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
}

/* Would a change leave the time of modification as it is, since that is now? */
static bool is_recent(struct inode *inode)
{
	struct timespec64 mtime = inode_get_mtime(inode), now = current_time(inode);

	if (timespec64_equal(&mtime, &now))
		return true;
	/* Perhaps only whole seconds are kept, or as on FAT every other one. */
	return !mtime.tv_nsec && mtime.tv_sec <= now.tv_sec &&
	       now.tv_sec - mtime.tv_sec < 2;
}

/*
 * Is what is mapped the file that was read, and as it was then? Whoever reads a file
 * of an overlay sees an inode of that, with size and time of the layer that has
 * these, while the code is in another one.
 */
static int check_file(struct file *mapped, const struct unwind_table_attach *arg)
{
	struct dentry *dentry = file_user_path(mapped)->dentry;
	struct inode *inode = file_inode(mapped);
	const struct inode *seen;
	struct timespec64 mtime;
	int ret;

	ret = check_identity(arg, file_user_inode(mapped));
	if (ret)
		return ret;
	/* Copied up since it was mapped: it is read from there now. */
	if (dentry->d_flags & DCACHE_OP_REAL && d_real_inode(dentry) != inode)
		return -ESTALE;

	if (is_unsealed(mapped))
		return -ENOEXEC;
	/* Those who write to a memfd may only have it mapped. */
	if (inode_is_open_for_write(inode) ||
	    mapping_writably_mapped(inode->i_mapping) || is_recent(inode))
		return -ETXTBSY;

	seen = d_inode(d_real(dentry, D_REAL_METADATA));
	mtime = inode_get_mtime(seen);
	return i_size_read(seen) == arg->file_size &&
	       mtime.tv_sec == arg->mtime_sec &&
	       mtime.tv_nsec == arg->mtime_nsec ? 0 : -ESTALE;
}

/**
 * struct attach_code - Code that a table is for
 * @key:	What it is known by: an inode, or the image of a vDSO
 * @file:	File that is mapped, with a reference which keeps the inode; or NULL
 */
struct attach_code {
	const void	*key;
	struct file	*file;
};

/* Which code is mapped at an address? */
static int find_code(struct mm_struct *mm, unsigned long address,
		     struct attach_code *code)
{
	struct vm_area_struct *vma = vma_lookup(mm, address);

	mmap_assert_locked(mm);

	if (!vma || !(vma->vm_flags & VM_EXEC))
		return -EFAULT;
	code->key = arch_unwind_vdso_key(vma);
	if (code->key)
		return 0;
	if (!vma->vm_file || !S_ISREG(file_inode(vma->vm_file)->i_mode))
		return -ENOEXEC;
	/* It need not be what the file has. */
	if (unwind_vma_may_differ(vma))
		return -ETXTBSY;
	code->key = file_inode(vma->vm_file);
	code->file = get_file(vma->vm_file);
	return 0;
}

/* Attach to a file in all processes, or to the vDSO. */
static int attach_file(const struct attach_code *code,
		       const struct unwind_table_attach *arg,
		       struct unwind_attach *attach, struct list_head *list)
{
	struct inode *inode = code->file ? file_inode(code->file) : NULL;
	int ret;

	if (inode) {
		attach->size = i_size_read(inode);
		attach->mtime = inode_get_mtime(inode);
		ret = check_file(code->file, arg);
		if (ret)
			return ret;
	} else if (names_file(arg)) {
		return -EINVAL;
	}
	return unwind_file_attach(code->key, inode, attach, list);
}

/* The memory of a process that the caller may look into */
static struct mm_struct *attach_mm(int pidfd)
{
	struct task_struct *task;
	struct mm_struct *mm;
	unsigned int flags;
	struct pid *pid;

	pid = pidfd_get_pid(pidfd, &flags);
	if (IS_ERR(pid))
		return ERR_CAST(pid);

	/* Any thread that has not exited will do: the main thread may have. */
	scoped_guard(rcu) {
		task = pid_task(pid, PIDTYPE_PID);
		if (task)
			task = find_lock_task_mm(task);
		if (task) {
			get_task_struct(task);
			task_unlock(task);
		}
	}
	put_pid(pid);
	if (!task)
		return ERR_PTR(-ESRCH);

	mm = mm_access(task, PTRACE_MODE_READ_REALCREDS);
	put_task_struct(task);
	return mm;
}

static int attach_table(struct dev_file *df, const struct attach_code *code,
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
	return attach_file(code, arg, attach, &dev->attached);
}

/*
 * Which code is mapped at an address of a process? Its mmap lock may be held for long;
 * nothing else is locked while it is waited for, or waited for with it locked.
 */
static int look_at(int pidfd, u64 address, struct attach_code *code)
{
	struct mm_struct *mm;
	int ret = -EINTR;

	/* Who opened the descriptor may not have meant to pass it on. */
	if (!perfmon_capable())
		return -EPERM;
	mm = attach_mm(pidfd);
	if (IS_ERR(mm))
		return PTR_ERR(mm);
	if (!mmap_read_lock_killable(mm)) {
		ret = find_code(mm, address, code);
		mmap_read_unlock(mm);
	}
	mmput(mm);
	return ret;
}

static int check_attach(const struct unwind_table_attach *arg)
{
	if (arg->flags & ~UNWIND_TABLE_ATTACH_FD || arg->mtime_nsec >= NSEC_PER_SEC)
		return -EINVAL;
	if (arg->flags & UNWIND_TABLE_ATTACH_FD)
		return arg->dev_major || arg->dev_minor || arg->ino ||
		       arg->ino_generation ? -EINVAL : 0;
	return arg->file ? -EINVAL : 0;
}

static long dev_attach(struct dev_file *df, const void __user *argp,
		       size_t size)
{
	struct unwind_table_attach arg;
	struct attach_code code = { };
	struct unwind_attach *attach;
	int ret;

	ret = copy_struct_from_user(&arg, sizeof(arg), argp, size) ?: check_attach(&arg);
	if (ret)
		return ret;
	ret = look_at(arg.pidfd, arg.address, &code);
	if (ret)
		return ret;

	ret = -ENOMEM;
	attach = kzalloc(sizeof(*attach), TABLE_GFP);
	if (attach) {
		attach->owner = &df->owner;
		ret = attach_table(df, &code, &arg, attach);
	}
	if (code.file)
		fput(code.file);
	if (ret)
		kfree(attach);
	return ret;
}

static long dev_query(const void __user *argp, size_t size)
{
	struct unwind_table_query arg;
	struct attach_code code = { };
	struct unwind_range range;
	int ret;

	ret = copy_struct_from_user(&arg, sizeof(arg), argp, size) ?:
	      look_at(arg.pidfd, arg.address, &code);
	if (ret)
		return ret;
	range = (struct unwind_range) { .key = code.key };
	unwind_file_note(&range, code.file ? file_inode(code.file) : NULL);
	ret = !!range.file;
	unwind_file_put(range.file);
	if (code.file)
		fput(code.file);
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
	BUILD_BUG_ON(offsetofend(struct unwind_table_attach, ino_generation) !=
		     UNWIND_TABLE_ATTACH_SIZE_VER0);
	BUILD_BUG_ON(offsetofend(struct unwind_table_query, address) !=
		     UNWIND_TABLE_QUERY_SIZE_VER0);

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
	case _IOC_NR(UNWIND_TABLE_QUERY):
		if (size < UNWIND_TABLE_QUERY_SIZE_VER0)
			return -EINVAL;
		return dev_query(argp, size);
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

	xa_for_each(&df->tables, nr, dev) {
		detach_table(dev);
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
