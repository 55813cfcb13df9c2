// Tries what a job in a sandbox must not be able to do.
//
//   attack NAME[=ARGUMENT]…
//
// Each attempt is made by a process of its own and prints a line: what was
// asked, a blank, and `done`, the name of an error, or the signal that it died
// of. Attempts that would harm a machine are made with an argument that is
// wrong: what the kernel says about the argument is said past every barrier.
//
// In C, because half of these calls have no other name than their number, and
// static, because it also runs in systems that have no library.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Said by attempts that found what they were looking for.
static char found[8192];

static long failed(int error) {
    errno = error;
    return -1;
}

static int number(const char *text) { return text ? atoi(text) : 0; }

// ------------------------------------------------------------------ mounts

static long mount_memory(const char *where) { return mount("none", where, "tmpfs", 0, NULL); }

static long mount_processes(const char *where) { return mount("proc", where, "proc", 0, NULL); }

static long mount_bind(const char *where) { return mount("/", where, NULL, MS_BIND | MS_REC, NULL); }

static long mount_overlay(const char *where) {
    return mount("overlay", where, "overlay", 0, "lowerdir=/usr:/etc");
}

static long remount_writable(const char *where) {
    return mount(NULL, where, NULL, MS_REMOUNT | MS_BIND, NULL);
}

static long unmount(const char *where) { return umount2(where, MNT_DETACH); }

static long pivot(const char *where) { return syscall(SYS_pivot_root, where, where); }

static long change_root(const char *where) { return chroot(where); }

static long filesystem_open(const char *type) { return syscall(SYS_fsopen, type, 0); }

static long filesystem_pick(const char *where) { return syscall(SYS_fspick, AT_FDCWD, where, 0); }

static long tree_clone(const char *where) {
    return syscall(SYS_open_tree, AT_FDCWD, where, 1 /* OPEN_TREE_CLONE */);
}

static long mount_attributes(const char *where) {
    uint64_t attributes[4] = {0, 1 /* MOUNT_ATTR_RDONLY */, 0, 0};
    return syscall(SYS_mount_setattr, AT_FDCWD, where, 0, attributes, sizeof attributes);
}

static long mount_move(const char *where) {
    return syscall(SYS_move_mount, AT_FDCWD, where, AT_FDCWD, where, 0);
}

// -------------------------------------------------------------- namespaces

// Enters the namespace that a file below /proc stands for.
static long enter(const char *file) {
    int fd = open(file, O_RDONLY);
    return fd < 0 ? -1 : setns(fd, 0);
}

// Enters all namespaces of a process at once.
static long enter_process(const char *pid) {
    int fd = syscall(SYS_pidfd_open, number(pid), 0);
    return fd < 0 ? -1 : setns(fd, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC);
}

static int namespace_flag(const char *name) {
    static const struct {
        const char *name;
        int flag;
    } flags[] = {{"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS}, {"pid", CLONE_NEWPID},
                 {"net", CLONE_NEWNET},   {"ipc", CLONE_NEWIPC},  {"uts", CLONE_NEWUTS},
                 {"cgroup", 0x02000000},  {"time", 0x80}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(flags[i].name, name)) return flags[i].flag;
    abort();
}

static long leave(const char *name) { return unshare(namespace_flag(name)); }

static long child_of(long pid) {
    if (pid == 0) _exit(0);
    return pid;
}

static long clone_into(const char *name) {
    return child_of(syscall(SYS_clone, namespace_flag(name) | SIGCHLD, NULL, NULL, NULL, NULL));
}

static long clone3_into(const char *name) {
    uint64_t arguments[11] = {namespace_flag(name), 0, 0, 0, SIGCHLD};
    return child_of(syscall(SYS_clone3, arguments, 64));
}

// --------------------------------------------------------------- processes

static long trace(const char *pid) { return ptrace(PTRACE_SEIZE, number(pid), NULL, NULL); }

static long read_memory(const char *pid) {
    char byte;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    long read = process_vm_readv(number(pid), &here, 1, &there, 1, 0);
    // An address that means nothing there is a matter past the permission.
    return read < 0 && errno == EFAULT ? 0 : read;
}

static long open_memory(const char *pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", number(pid));
    return open(path, O_RDWR);
}

static long take_descriptor(const char *pid) {
    int fd = syscall(SYS_pidfd_open, number(pid), 0);
    return fd < 0 ? -1 : syscall(SYS_pidfd_getfd, fd, 0, 0);
}

static long handle(const char *pid) { return syscall(SYS_pidfd_open, number(pid), 0); }

static long signal_process(const char *pid) { return kill(number(pid), SIGTERM); }

static long signal_all(const char *unused) {
    (void)unused;
    return kill(-1, SIGKILL);
}

// ------------------------------------------------------------------ kernel

static long add_key(const char *unused) {
    (void)unused;
    return syscall(SYS_add_key, "user", "vestal-escape", "x", 1, -1 /* of this thread */);
}

static long request_key(const char *unused) {
    (void)unused;
    return syscall(SYS_request_key, "user", "vestal-escape-none", NULL, -1);
}

static long key_control(const char *unused) {
    (void)unused;
    return syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -1, 1);
}

static long fault_handler(const char *unused) {
    (void)unused;
    return syscall(SYS_userfaultfd, O_CLOEXEC);
}

static long bpf_map(const char *unused) {
    (void)unused;
    uint32_t attributes[32] = {2 /* BPF_MAP_TYPE_ARRAY */, 4, 8, 1};
    return syscall(SYS_bpf, 0 /* BPF_MAP_CREATE */, attributes, sizeof attributes);
}

static long performance(const char *unused) {
    (void)unused;
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE,
                                    .size = sizeof event,
                                    .config = PERF_COUNT_SW_CPU_CLOCK};
    return syscall(SYS_perf_event_open, &event, -1, 0, -1, 0);
}

static long ring(const char *unused) {
    (void)unused;
    struct io_uring_params parameters = {0};
    return syscall(SYS_io_uring_setup, 1, &parameters);
}

static long load_kernel(const char *unused) {
    (void)unused;
    return syscall(SYS_kexec_load, 0, ~0ul, NULL, ~0ul);
}

static long load_module(const char *unused) {
    (void)unused;
    return syscall(SYS_finit_module, -1, "", 0);
}

static long unload_module(const char *unused) {
    (void)unused;
    return syscall(SYS_delete_module, "vestal_escape_none", O_NONBLOCK);
}

static long restart_machine(const char *unused) {
    (void)unused;
    // Without the magic numbers nothing comes of it.
    return syscall(SYS_reboot, 0, 0, 0, NULL);
}

static long swap(const char *unused) {
    (void)unused;
    return syscall(SYS_swapon, "/vestal-escape-none", 0);
}

static long set_clock(const char *unused) {
    (void)unused;
    struct timespec wrong = {0, -1};
    return syscall(SYS_clock_settime, CLOCK_REALTIME, &wrong);
}

static long account(const char *unused) {
    (void)unused;
    return syscall(SYS_acct, "/vestal-escape-none");
}

static long quota(const char *unused) {
    (void)unused;
    return syscall(SYS_quotactl, 0x800001 << 8 /* Q_SYNC */, NULL, 0, NULL);
}

static long kernel_log(const char *unused) {
    (void)unused;
    return syscall(SYS_syslog, 10 /* SYSLOG_ACTION_SIZE_BUFFER */, NULL, 0);
}

static long watch_files(const char *unused) {
    (void)unused;
    return syscall(SYS_fanotify_init, 0, O_RDONLY);
}

static long open_by_handle(const char *where) {
    struct {
        struct file_handle head;
        char rest[128];
    } handle = {.head.handle_bytes = 128};
    int mount, fd = open(where, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return -1;
    if (name_to_handle_at(AT_FDCWD, where, &handle.head, &mount, 0)) return -1;
    return open_by_handle_at(fd, &handle.head, O_RDONLY);
}

static long strange_personality(const char *unused) {
    (void)unused;
    return syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */);
}

static long ports(const char *unused) {
    (void)unused;
#ifdef SYS_iopl
    return syscall(SYS_iopl, 3);
#else
    return failed(ENOSYS);
#endif
}

// The same kernel by its older door, where filters count calls differently.
static long old_door(const char *unused) {
    (void)unused;
#ifdef __x86_64__
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(21 /* mount */), "b"(0), "c"(0), "d"(0), "S"(0), "D"(0) : "memory");
    return result < 0 ? failed(-result) : result;
#else
    return failed(ENOSYS);
#endif
}

// The same call by the number of another convention.
static long other_numbers(const char *unused) {
    (void)unused;
    return syscall(0x40000000 | SYS_getpid);
}

// --------------------------------------------------------------- terminals

static int terminal(void) {
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY), unlock = 0;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock)) return -1;
    setsid();
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR);
    if (slave >= 0) ioctl(slave, TIOCSCTTY, 0);
    return slave;
}

static long type_ahead(const char *unused) {
    (void)unused;
    int slave = terminal();
    return slave < 0 ? -1 : ioctl(slave, TIOCSTI, "x");
}

// The kernel looks at half of the number only.
static long type_ahead_disguised(const char *unused) {
    (void)unused;
    int slave = terminal();
    return slave < 0 ? -1 : syscall(SYS_ioctl, slave, TIOCSTI | 1ul << 32, "x");
}

static long console_paste(const char *unused) {
    (void)unused;
    char paste = 3;
    int slave = terminal();
    return slave < 0 ? -1 : ioctl(slave, TIOCLINUX, &paste);
}

// ----------------------------------------------------------------- sockets

static long socket_of(const char *family) { return socket(number(family), SOCK_STREAM, 0); }

static long packets(const char *unused) {
    (void)unused;
    return socket(AF_PACKET, SOCK_RAW, 0);
}

static long raw_socket(const char *unused) {
    (void)unused;
    return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static long connect_unix(const char *name, int abstract) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name);
    strncpy(address.sun_path + abstract, name, sizeof address.sun_path - 2);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, abstract ? length : sizeof address);
}

static long connect_path(const char *path) { return connect_unix(path, 0); }

static long connect_abstract(const char *name) { return connect_unix(name, 1); }

static long connect_port(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(number(port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, sizeof address);
}

static long landlock_version(const char *unused) {
    (void)unused;
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
    if (version >= 0) snprintf(found, sizeof found, "%ld", version);
    return version;
}

// ------------------------------------------------------------------- files

static long open_read(const char *path) {
    char byte;
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0) return -1;
    long count = read(fd, &byte, 1);
    // An empty file in the place of the real one is as good as none.
    return count == 0 ? failed(ENODATA) : count;
}

static long open_write(const char *path) { return open(path, O_WRONLY | O_NONBLOCK); }

static long truncate_file(const char *path) { return truncate(path, 0); }

static long make_device(const char *path) {
    return mknod(path, S_IFCHR | 0666, makedev(1, 3));
}

static long make_block_device(const char *path) {
    return mknod(path, S_IFBLK | 0600, makedev(7, 0));
}

static const char *const MARK = "planted by a test of Vestal";

static int is_planted(const char *path) {
    char content[4096];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return 0;
    long count = read(fd, content, sizeof content);
    close(fd);
    return count > 0 && memmem(content, count, MARK, strlen(MARK)) != NULL;
}

// Looks for a file below this place and below everything above it.
static void hunt_from(const char *place, const char *path) {
    char whole[8192], up[64] = "";
    for (int level = 0; level < 10; level++, strcat(up, "/..")) {
        snprintf(whole, sizeof whole, "%s%s%s", place, up, path);
        if (!*found && is_planted(whole)) snprintf(found, sizeof found, "%s", whole);
    }
}

// Calls hunt_from for each name in a directory, or for a name below each.
static void hunt_in(const char *dir, const char *below, const char *path) {
    char place[4096];
    DIR *open = opendir(dir);
    if (!open) return;
    for (struct dirent *entry; (entry = readdir(open));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(place, sizeof place, "%s/%s%s", dir, entry->d_name, below);
        hunt_from(place, path);
    }
    closedir(open);
}

// Looks for a planted file by every way out: its path, the roots, working
// directories and descriptors of all processes, and what is above each mount.
static long hunt(const char *path) {
    char line[8192], place[4096], dir[300];
    hunt_from("", path);
    hunt_in("/proc", "/root", path);
    hunt_in("/proc", "/cwd", path);
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        snprintf(dir, sizeof dir, "/proc/%s/fd", entry->d_name);
        hunt_in(dir, "", path);
        snprintf(dir, sizeof dir, "/proc/%s/map_files", entry->d_name);
        hunt_in(dir, "", path);
    }
    FILE *mounts = fopen("/proc/self/mountinfo", "r");
    while (mounts && fgets(line, sizeof line, mounts))
        if (sscanf(line, "%*s %*s %*s %*s %4095s", place) == 1) hunt_from(place, path);
    return *found ? 0 : failed(ENOENT);
}

// ------------------------------------------------------------------- users

static long become_root(const char *unused) {
    (void)unused;
    if (geteuid() == 0) return 0;
    return failed(EPERM);
}

// Gives up all power, then asks a program with the set-uid bit for it.
static long regain(const char *program) {
    char command[4200], said[256] = "";
    // With one user there is none without power, and so nothing to be had.
    if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000)) return failed(EPERM);
    snprintf(command, sizeof command, "%s become-root", program);
    FILE *output = popen(command, "r");
    if (!output || !fgets(said, sizeof said, output)) return failed(ENOEXEC);
    return strstr(said, " done") ? 0 : failed(EPERM);
}

// ------------------------------------------------------------------ limits of a user

// Takes what the kernel counts for a user, at most so many of each; the number
// that was had, or an error where not even one was.
static int take_watchers(int most) {
    int had = 0;
    while (had < most && inotify_init1(IN_CLOEXEC) >= 0) had++;
    return had;
}

static int take_timers(int most) {
    int had = 0;
    timer_t timer;
    struct sigevent none = {.sigev_notify = SIGEV_NONE};
    while (had < most && timer_create(CLOCK_MONOTONIC, &none, &timer) == 0) had++;
    return had;
}

static int take_queues(int most) {
    int had = 0;
    char name[64];
    while (had < most) {
        snprintf(name, sizeof name, "/vestal-%d-%d", getpid(), had);
        if (mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, NULL) < 0) break;
        mq_unlink(name);
        had++;
    }
    return had;
}

static long take_one_each(const char *argument) {
    (void)argument;
    if (take_watchers(1) && take_timers(1) && take_queues(1)) return 0;
    return -1;
}

// Takes all there is, as several users where it can be them, says so, and keeps
// it until its standard input ends.
static long hold_all(const char *argument) {
    (void)argument;
    alarm(0);
    int ready[2];
    if (pipe(ready)) return -1;
    for (int user = 0; user < 6; user++) {
        pid_t child = fork();
        if (child < 0) return -1;
        if (child == 0) {
            // Where there are no other users it is tried all the same.
            if (user && syscall(SYS_setresuid, user, user, user)) user = 0;
            take_watchers(1 << 20);
            take_timers(1 << 20);
            take_queues(1 << 20);
            if (write(ready[1], "+", 1) != 1) _exit(1);
            close(ready[1]);
            char end;
            while (read(0, &end, 1) > 0) continue;
            _exit(0);
        }
    }
    char one;
    for (int user = 0; user < 6; user++)
        if (read(ready[0], &one, 1) != 1) return -1;
    printf("held\n");
    fflush(stdout);
    while (wait(NULL) > 0) continue;
    return 0;
}

static const struct {
    const char *name;
    long (*attempt)(const char *argument);
} ATTEMPTS[] = {
    {"mount-memory", mount_memory},
    {"mount-processes", mount_processes},
    {"mount-bind", mount_bind},
    {"mount-overlay", mount_overlay},
    {"remount-writable", remount_writable},
    {"unmount", unmount},
    {"pivot", pivot},
    {"change-root", change_root},
    {"filesystem-open", filesystem_open},
    {"filesystem-pick", filesystem_pick},
    {"tree-clone", tree_clone},
    {"mount-attributes", mount_attributes},
    {"mount-move", mount_move},
    {"enter", enter},
    {"enter-process", enter_process},
    {"unshare", leave},
    {"clone", clone_into},
    {"clone3", clone3_into},
    {"trace", trace},
    {"read-memory", read_memory},
    {"open-memory", open_memory},
    {"take-descriptor", take_descriptor},
    {"handle", handle},
    {"signal", signal_process},
    {"signal-all", signal_all},
    {"add-key", add_key},
    {"request-key", request_key},
    {"key-control", key_control},
    {"fault-handler", fault_handler},
    {"bpf", bpf_map},
    {"performance", performance},
    {"ring", ring},
    {"load-kernel", load_kernel},
    {"load-module", load_module},
    {"unload-module", unload_module},
    {"restart-machine", restart_machine},
    {"swap", swap},
    {"set-clock", set_clock},
    {"account", account},
    {"quota", quota},
    {"kernel-log", kernel_log},
    {"watch-files", watch_files},
    {"open-by-handle", open_by_handle},
    {"strange-personality", strange_personality},
    {"ports", ports},
    {"old-door", old_door},
    {"other-numbers", other_numbers},
    {"type-ahead", type_ahead},
    {"type-ahead-disguised", type_ahead_disguised},
    {"console-paste", console_paste},
    {"socket", socket_of},
    {"packets", packets},
    {"raw-socket", raw_socket},
    {"connect-path", connect_path},
    {"connect-abstract", connect_abstract},
    {"connect-port", connect_port},
    {"landlock-version", landlock_version},
    {"read", open_read},
    {"write", open_write},
    {"truncate", truncate_file},
    {"make-device", make_device},
    {"make-block-device", make_block_device},
    {"hunt", hunt},
    {"become-root", become_root},
    {"regain", regain},
    {"take-one-each", take_one_each},
    {"hold-all", hold_all},
};

static void attempt(const char *asked) {
    const char *argument = strchr(asked, '=');
    size_t length = argument ? (size_t)(argument - asked) : strlen(asked);
    for (size_t i = 0; i < sizeof ATTEMPTS / sizeof *ATTEMPTS; i++) {
        if (strlen(ATTEMPTS[i].name) != length || strncmp(ATTEMPTS[i].name, asked, length)) continue;
        errno = 0;
        long result = ATTEMPTS[i].attempt(argument ? argument + 1 : "");
        int error = errno;
        if (result < 0)
            printf("%s %s\n", asked, strerrorname_np(error));
        else
            printf("%s done%s%s\n", asked, *found ? ": " : "", found);
        return;
    }
    printf("%s unknown\n", asked);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    // A job that is tampered with is to be told from one that hangs.
    for (int i = 1; i < count; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            attempt(arguments[i]);
            fflush(stdout);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
        if (WIFSIGNALED(status)) printf("%s SIG%s\n", arguments[i], sigabbrev_np(WTERMSIG(status)));
    }
    return 0;
}
