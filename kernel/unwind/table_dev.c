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
#include <linux/memfd.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/oom.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/xarray.h>

#include <asm/unwind_user.h>

#include "table.h"
#include "table_file.h"

#include <trace/events/unwind_table.h>

/* Tables of a descriptor, and what they are attached to */
#define TABLE_MAX_TABLES	BIT(16)
#define TABLE_MAX_ATTACHED	BIT(18)

/*
 * The caller can be told that there is no memory. So nothing is killed to get some,
 * in the caller's memory cgroup or elsewhere.
 */
#define TABLE_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Others may run after this much of a table was copied in. */
#define TABLE_COPY		SZ_1M

/* Limit of all tables together; kernel.unwind_table_max_kb */
static unsigned int unwind_dev_max_kb = 256 * 1024;
static atomic64_t unwind_dev_bytes;
static atomic_t unwind_dev_nr_tables;
/* Commands that a limit has refused */
static atomic_t unwind_dev_refused;
static atomic64_t unwind_dev_serial;

/**
 * struct unwind_dev_file - What came through one descriptor
 * @attached:	How many attachments its tables have
 * @lock:	Held while a table is removed, and while one must stay
 * @tables:	Tables by number
 * @next:	Where the search for a free number begins
 */
struct unwind_dev_file {
	atomic_t		attached;
	/* See above. */
	struct mutex		lock;
	struct xarray		tables;
	u32			next;
};

bool sysctl_unwind_in_place = true;
static struct ctl_table unwind_dev_sysctls[] = {
	{
		.procname	= "unwind_in_place",
		.data		= &sysctl_unwind_in_place,
		.maxlen		= sizeof(sysctl_unwind_in_place),
		.mode		= 0644,
		.proc_handler	= proc_dobool,
	},
	{
		.procname	= "unwind_table_max_kb",
		.data		= &unwind_dev_max_kb,
		.maxlen		= sizeof(unwind_dev_max_kb),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
};

/* Account for memory that is about to be used. Returns false if it is too much. */
static bool unwind_dev_charge(size_t size)
{
	u64 max = (u64)READ_ONCE(unwind_dev_max_kb) * 1024;
	unsigned int tries;

	for (tries = 0; tries < 2; tries++) {
		if (atomic64_add_return(size, &unwind_dev_bytes) <= max)
			return true;
		atomic64_sub(size, &unwind_dev_bytes);
		/* Tables that were dropped just now still count. */
		if (!tries)
			rcu_barrier();
	}
	return false;
}

/* Copy what user space hands in. That may be large, and the caller may be killed. */
static void *unwind_dev_copy(u64 addr, size_t len)
{
	void *data __free(kvfree) = kvmalloc(len, TABLE_GFP);
	const char __user *from = u64_to_user_ptr(addr);
	size_t done, n;

	if (!data)
		return ERR_PTR(-ENOMEM);

	for (done = 0; done < len; done += n) {
		n = min_t(size_t, len - done, TABLE_COPY);
		if (fatal_signal_pending(current))
			return ERR_PTR(-EINTR);
		if (copy_from_user(data + done, from + done, n))
			return ERR_PTR(-EFAULT);
		cond_resched();
	}
	return no_free_ptr(data);
}

/*
 * Check what was handed in. It is refused unless its memory can be charged: the copy's, of
 * which every thread may have one, and the table's.
 */
static struct unwind_table *unwind_dev_load_table(const struct unwind_table_make *arg)
{
	const char *why = "more than kernel.unwind_table_max_kb";
	struct unwind_table *table = ERR_PTR(-ENOSPC);
	void *data;

	if (unwind_dev_charge(2 * arg->len)) {
		data = unwind_dev_copy(arg->data, arg->len);
		if (IS_ERR(data)) {
			atomic64_sub(2 * arg->len, &unwind_dev_bytes);
			return data;
		}
		table = unwind_table_make(data, arg->len, &why);
		kvfree(data);
		atomic64_sub(2 * arg->len - (IS_ERR(table) ? 0 : table->size), &unwind_dev_bytes);
	}
	if (IS_ERR(table))
		trace_unwind_table(0, 0, arg->len, why);
	return table;
}

static void unwind_dev_free_table_rcu(struct rcu_head *rcu)
{
	struct unwind_table *table = container_of(rcu, struct unwind_table, rcu);

	atomic64_sub(table->size, &unwind_dev_bytes);
	kvfree(table);
}

/* Detach a table from all files, and free it. Walks may still be using it. */
static void unwind_dev_free_table(struct unwind_table *table)
{
	unwind_table_detach(table);
	trace_unwind_table(table->serial, table->nr_rows, table->size, "gone");
	atomic_dec(&unwind_dev_nr_tables);
	call_rcu(&table->rcu, unwind_dev_free_table_rcu);
}

static long unwind_dev_make(struct unwind_dev_file *df, const void __user *argp, size_t size)
{
	struct unwind_table_make arg;
	struct unwind_table *table;
	u32 nr;
	int ret;

	ret = copy_struct_from_user(&arg, sizeof(arg), argp, size);
	if (ret)
		return ret;
	if (arg.flags)
		return -EINVAL;
	if (arg.len > UNWIND_TABLE_MAX_LEN)
		return -E2BIG;

	table = unwind_dev_load_table(&arg);
	if (IS_ERR(table))
		return PTR_ERR(table);
	table->serial = atomic64_inc_return(&unwind_dev_serial);
	table->random = get_random_u64();
	table->owner = &df->attached;
	INIT_LIST_HEAD(&table->attached);
	atomic_inc(&unwind_dev_nr_tables);
	trace_unwind_table(table->serial, table->nr_rows, table->size, "made");

	/*
	 * A number that was dropped is used again as late as possible: where it is still
	 * known, it does not name the next table.
	 */
	ret = xa_alloc_cyclic(&df->tables, &nr, table, XA_LIMIT(1, TABLE_MAX_TABLES),
			      &df->next, TABLE_GFP);
	if (ret >= 0)
		return nr;
	unwind_dev_free_table(table);
	return ret == -EBUSY ? -ENOSPC : ret;
}

/*
 * Files without a name, such as memfds, are opened without being counted as open for
 * writing. That nobody can write to them is only certain if they are sealed.
 */
static bool unwind_dev_is_unsealed(struct file *file)
{
	long seals;

	if (!(file_inode(file)->i_sb->s_flags & SB_KERNMOUNT))
		return false;
	seals = memfd_fcntl(file, F_GET_SEALS, 0);
	return seals < 0 || !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
}

/* Is the time of modification now, so that a change would not show in it? */
static bool unwind_dev_is_recent(struct inode *inode)
{
	struct timespec64 mtime = inode_get_mtime(inode), now = current_time(inode);

	if (timespec64_equal(&mtime, &now))
		return true;
	/* Perhaps only whole seconds are kept, or as on FAT every other one. */
	return !mtime.tv_nsec && mtime.tv_sec <= now.tv_sec &&
	       now.tv_sec - mtime.tv_sec < 2;
}

/*
 * Is the mapped file the one that was read, and unchanged? Readers of a file of an overlay see an
 * inode of the overlay, with size and time of the layer that has these, while the code is
 * in another one.
 */
static int unwind_dev_check_file(struct file *mapped, const struct unwind_table_attach *arg)
{
	struct dentry *dentry = file_user_path(mapped)->dentry;
	struct inode *inode = file_inode(mapped);
	const struct inode *seen;
	struct timespec64 mtime;

	CLASS(fd_raw, read)(arg->file);
	if (fd_empty(read))
		return -EBADF;
	if (file_inode(fd_file(read)) != file_user_inode(mapped))
		return -ESTALE;
	/* Copied up since it was mapped: it is read from there now. */
	if (dentry->d_flags & DCACHE_OP_REAL && d_real_inode(dentry) != inode)
		return -ESTALE;

	if (unwind_dev_is_unsealed(mapped))
		return -ENOEXEC;
	/* Writers of a memfd may only have it mapped. */
	if (inode_is_open_for_write(inode) ||
	    mapping_writably_mapped(inode->i_mapping) || unwind_dev_is_recent(inode))
		return -ETXTBSY;

	seen = d_inode(d_real(dentry, D_REAL_METADATA));
	mtime = inode_get_mtime(seen);
	return i_size_read(seen) == arg->file_size &&
	       mtime.tv_sec == arg->mtime_sec &&
	       mtime.tv_nsec == arg->mtime_nsec ? 0 : -ESTALE;
}

/*
 * All tracers believe what is attached. So the opener of the device needs rights over the
 * whole system, or the file has to be the caller's: its owner decides what its code does,
 * even where the file itself can no longer be changed (fs-verity, read-only mounts). The
 * inode below an overlay is in many containers, and the vDSO in all processes.
 */
static bool unwind_dev_may_attach(struct file *device, struct file *mapped)
{
	if (file_ns_capable(device, &init_user_ns, CAP_SYS_ADMIN))
		return true;
	return mapped && file_user_inode(mapped) == file_inode(mapped) &&
	       inode_owner_or_capable(file_mnt_idmap(mapped), file_inode(mapped));
}

/*
 * Get the key of the code that a VMA maps: the image of a vDSO, or the inode of @file, which
 * gets a reference that keeps it.
 */
static const void *unwind_dev_vma_key(struct vm_area_struct *vma, struct file **file)
{
	const void *key;

	if (!(vma->vm_flags & VM_EXEC))
		return ERR_PTR(-EFAULT);
	key = arch_unwind_vdso_key(vma->vm_mm, vma);
	if (key)
		return key;
	if (!vma->vm_file || !S_ISREG(file_inode(vma->vm_file)->i_mode))
		return ERR_PTR(-ENOEXEC);
	/* The code may differ from the file's. */
	if (unwind_vma_may_differ(vma))
		return ERR_PTR(-ETXTBSY);
	*file = get_file(vma->vm_file);
	return file_inode(*file);
}

/* As mm_access(), but without waiting: a process can make its execve() take for ever. */
static struct mm_struct *unwind_dev_try_mm(struct task_struct *task)
{
	struct rw_semaphore *lock = &task->signal->exec_update_lock;
	struct mm_struct *mm;

	if (!down_read_trylock(lock))
		return ERR_PTR(-EAGAIN);
	mm = get_task_mm(task) ?: ERR_PTR(-ESRCH);
	if (!IS_ERR(mm) && mm != current->mm &&
	    !ptrace_may_access(task, PTRACE_MODE_READ_REALCREDS)) {
		mmput_async(mm);
		mm = ERR_PTR(-EACCES);
	}
	up_read(lock);
	return mm;
}

/* Get the mm of a process that the caller may inspect. */
static struct mm_struct *unwind_dev_get_mm(int pidfd)
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

	mm = unwind_dev_try_mm(task);
	put_task_struct(task);
	return mm;
}

/* Attach to a file in all processes, or to the vDSO. */
static int unwind_dev_attach_table(struct unwind_dev_file *df, const void *key, struct file *file,
				   const struct unwind_table_attach *arg,
				   struct unwind_attach *attach)
{
	struct inode *inode = file ? file_inode(file) : NULL;
	int ret;

	if (!inode != !arg->flags)
		return -EINVAL;

	guard(mutex)(&df->lock);

	attach->table = xa_load(&df->tables, arg->table);
	if (!attach->table)
		return -ENOENT;
	if (atomic_read(&df->attached) >= TABLE_MAX_ATTACHED)
		return -ENOSPC;
	if (inode) {
		attach->size = i_size_read(inode);
		attach->mtime = inode_get_mtime(inode);
		ret = unwind_dev_check_file(file, arg);
		if (ret)
			return ret;
	}
	return unwind_file_attach(key, inode, attach);
}

/*
 * Get the key of the code at an address of a process, as above. This does not wait for that
 * process: it may hold its locks for as long as it likes, and leave the last reference to
 * its memory here.
 */
static const void *unwind_dev_find_key(int pidfd, u64 address, struct file **file)
{
	const void *key = ERR_PTR(-EAGAIN);
	struct vm_area_struct *vma;
	struct mm_struct *mm;

	/* The opener of the descriptor may not have meant to pass it on. */
	if (!perfmon_capable())
		return ERR_PTR(-EPERM);
	mm = unwind_dev_get_mm(pidfd);
	if (IS_ERR(mm))
		return ERR_CAST(mm);
	vma = lock_vma_under_rcu(mm, address);
	if (vma) {
		key = unwind_dev_vma_key(vma, file);
		vma_end_read(vma);
	} else if (!unwind_user_is_mapped(mm, address)) {
		key = ERR_PTR(-EFAULT);
	}
	mmput_async(mm);
	return key;
}

/* Either the file that was read is named, or nothing, for the vDSO. */
static bool unwind_dev_check_attach(const struct unwind_table_attach *arg)
{
	if (arg->flags == UNWIND_TABLE_ATTACH_FD)
		return arg->mtime_nsec < NSEC_PER_SEC;
	return !arg->flags && !arg->file_size && !arg->mtime_sec && !arg->mtime_nsec && !arg->file;
}

static long unwind_dev_attach(struct file *device, const void __user *argp, size_t size)
{
	struct file *file __free(fput) = NULL;
	struct unwind_table_attach arg;
	struct unwind_attach *attach;
	const void *key;
	int ret;

	ret = copy_struct_from_user(&arg, sizeof(arg), argp, size);
	if (ret)
		return ret;
	if (!unwind_dev_check_attach(&arg))
		return -EINVAL;
	key = unwind_dev_find_key(arg.pidfd, arg.address, &file);
	if (IS_ERR(key))
		return PTR_ERR(key);
	if (!unwind_dev_may_attach(device, file))
		return -EPERM;

	attach = kzalloc(sizeof(*attach), TABLE_GFP);
	if (!attach)
		return -ENOMEM;
	ret = unwind_dev_attach_table(device->private_data, key, file, &arg, attach);
	if (ret)
		kfree(attach);
	return ret;
}

static long unwind_dev_query(const void __user *argp, size_t size)
{
	struct file *mapped __free(fput) = NULL;
	struct unwind_table_query arg;
	struct unwind_file *file;
	const void *key;
	int ret;

	ret = copy_struct_from_user(&arg, sizeof(arg), argp, size);
	if (ret)
		return ret;
	key = unwind_dev_find_key(arg.pidfd, arg.address, &mapped);
	if (IS_ERR(key))
		return PTR_ERR(key);
	file = unwind_file_get(key, mapped ? file_inode(mapped) : NULL);
	unwind_file_put(file);
	return !!file;
}

static long unwind_dev_drop(struct unwind_dev_file *df, unsigned long nr)
{
	struct unwind_table *table;

	scoped_guard(mutex, &df->lock)
		table = xa_erase(&df->tables, nr);
	if (!table)
		return -ENOENT;
	unwind_dev_free_table(table);
	return 0;
}

static long unwind_dev_command(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct unwind_dev_file *df = file->private_data;
	void __user *argp = (void __user *)arg;
	u32 size = 0;

	BUILD_BUG_ON(sizeof(struct unwind_table_make) != UNWIND_TABLE_MAKE_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct unwind_table_attach) != UNWIND_TABLE_ATTACH_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct unwind_table_query) != UNWIND_TABLE_QUERY_SIZE_VER0);

	if (!file_ns_capable(file, &init_user_ns, CAP_PERFMON) &&
	    !file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN))
		return -EPERM;

	if (cmd == UNWIND_TABLE_DROP)
		return unwind_dev_drop(df, arg);

	/* Later kernels may have more fields; then the command differs in size. */
	if (_IOC_TYPE(cmd) != UNWIND_TABLE_IOC || _IOC_DIR(cmd) != _IOC_WRITE)
		return -ENOTTY;
	if (get_user(size, (u32 __user *)argp))
		return -EFAULT;
	if (size > PAGE_SIZE)
		return -E2BIG;

	switch (_IOC_NR(cmd)) {
	case _IOC_NR(UNWIND_TABLE_MAKE):
		return size < UNWIND_TABLE_MAKE_SIZE_VER0 ? -EINVAL :
							    unwind_dev_make(df, argp, size);
	case _IOC_NR(UNWIND_TABLE_ATTACH):
		return size < UNWIND_TABLE_ATTACH_SIZE_VER0 ? -EINVAL :
							      unwind_dev_attach(file, argp, size);
	case _IOC_NR(UNWIND_TABLE_QUERY):
		return size < UNWIND_TABLE_QUERY_SIZE_VER0 ? -EINVAL :
							     unwind_dev_query(argp, size);
	default:
		return -ENOTTY;
	}
}

static long unwind_dev_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	long ret = unwind_dev_command(file, cmd, arg);

	if (ret == -ENOSPC)
		atomic_inc(&unwind_dev_refused);
	return ret;
}

static int unwind_dev_open(struct inode *inode, struct file *file)
{
	struct unwind_dev_file *df;

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

static int unwind_dev_release(struct inode *inode, struct file *file)
{
	struct unwind_dev_file *df = file->private_data;
	struct unwind_table *table;
	unsigned long nr;

	xa_for_each(&df->tables, nr, table) {
		unwind_dev_free_table(table);
		cond_resched();
	}
	xa_destroy(&df->tables);
	kfree(df);
	unwind_files_close();
	return 0;
}

/* Counts of walks while the device was open, since the kernel was booted */
struct unwind_dev_counts {
	u64	walks;
	u64	outermost;
	u64	frames;
	u64	fp_frames;
};

static DEFINE_PER_CPU(struct unwind_dev_counts, unwind_dev_counts);

/**
 * unwind_files_count_walk - Count a walk of 64-bit code
 * @end:	Why it ended
 * @frames:	Callers that were found by tables for files
 * @fp_frames:	Callers that were found by frame pointers
 */
void unwind_files_count_walk(enum unwind_user_status end, unsigned int frames,
			     unsigned int fp_frames)
{
	this_cpu_inc(unwind_dev_counts.walks);
	if (end == UNWIND_USER_END)
		this_cpu_inc(unwind_dev_counts.outermost);
	this_cpu_add(unwind_dev_counts.frames, frames);
	this_cpu_add(unwind_dev_counts.fp_frames, fp_frames);
}

static u64 unwind_dev_sum(const u64 __percpu *count)
{
	unsigned int cpu;
	u64 sum = 0;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(count, cpu));
	return sum;
}

static void unwind_dev_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct unwind_dev_file *df = file->private_data;
	struct unwind_table *table;
	unsigned int tables = 0;
	u64 bytes = 0;
	unsigned long nr;

	scoped_guard(mutex, &df->lock) {
		xa_for_each(&df->tables, nr, table) {
			tables++;
			bytes += table->size;
		}
	}
	seq_printf(m, "tables:\t%u\n", tables);
	seq_printf(m, "bytes:\t%llu\n", bytes);
	seq_printf(m, "attached:\t%d\n", atomic_read(&df->attached));
	seq_printf(m, "all_tables:\t%u\n", atomic_read(&unwind_dev_nr_tables));
	seq_printf(m, "all_bytes:\t%llu\n", (u64)atomic64_read(&unwind_dev_bytes));
	seq_printf(m, "all_refused:\t%u\n", atomic_read(&unwind_dev_refused));
	seq_printf(m, "walks:\t%llu\n", unwind_dev_sum(&unwind_dev_counts.walks));
	seq_printf(m, "walks_complete:\t%llu\n", unwind_dev_sum(&unwind_dev_counts.outermost));
	seq_printf(m, "frames:\t%llu\n", unwind_dev_sum(&unwind_dev_counts.frames));
	seq_printf(m, "frames_by_fp:\t%llu\n", unwind_dev_sum(&unwind_dev_counts.fp_frames));
}

static const struct file_operations unwind_dev_fops = {
	.owner		= THIS_MODULE,
	.open		= unwind_dev_open,
	.release	= unwind_dev_release,
	.unlocked_ioctl	= unwind_dev_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= unwind_dev_show_fdinfo,
};

static struct miscdevice unwind_dev_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "unwind_tables",
	.fops	= &unwind_dev_fops,
	/* Capabilities decide. */
	.mode	= 0666,
};

static int __init unwind_dev_init(void)
{
	u64 max = (u64)totalram_pages() << PAGE_SHIFT >> 12;

	unwind_dev_max_kb = min_t(u64, unwind_dev_max_kb, max);
	register_sysctl_init("kernel", unwind_dev_sysctls);
	return misc_register(&unwind_dev_misc);
}
device_initcall(unwind_dev_init);
