use super::*;

/// Returns hierarchies that are plain directories.
fn plain(root: &Path) -> Hierarchies {
    let own = "2:pids:/\n1:memory:/\n";
    let mount = |name: &str| {
        let dir = root.join(name);
        fs::create_dir_all(&dir).unwrap();
        format!("1 1 0:1 / {} rw - cgroup cgroup rw,{name}\n", dir.display())
    };
    Hierarchies::parse(own, &[mount("pids"), mount("memory")].concat())
}

#[tokio::test]
async fn limits_are_written_where_they_are_looked_for_and_go_with_the_instance() {
    let root = tempfile::tempdir().unwrap();
    let hierarchies = plain(root.path());
    let limits = [(Controller::Memory, 1 << 20), (Controller::Pids, 100)];
    let groups = make(&hierarchies, "i1", &limits);
    let dirs = [root.path().join("memory/vestal-i1"), root.path().join("pids/vestal-i1")];
    assert_eq!((&groups.dirs[..], &groups.refused[..]), (&dirs[..], &[][..]));
    assert_eq!(planned_dirs(&hierarchies, "i1", &limits), dirs);
    let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
    assert_eq!(read("memory/vestal-i1/memory.limit_in_bytes"), "1048576");
    assert_eq!(read("pids/vestal-i1/pids.max"), "100");
    // Only the kernel's files go with their directory.
    for dir in &dirs {
        for file in fs::read_dir(dir).unwrap().flatten() {
            fs::remove_file(file.path()).unwrap();
        }
    }
    let other = root.path().join("precious");
    fs::create_dir(&other).unwrap();
    remove("i1", &[&dirs[..], std::slice::from_ref(&other)].concat()).await.unwrap();
    remove("i1", &dirs).await.unwrap();
    assert!(!dirs.iter().any(|dir| dir.exists()));
    assert!(other.exists(), "it has another name");
}

#[test]
fn what_cannot_be_limited_is_reported_and_leaves_no_group() {
    let root = tempfile::tempdir().unwrap();
    let hierarchies = plain(root.path());
    let groups = make(&hierarchies, "i1", &[(Controller::Cpu, 1000)]);
    assert_eq!(groups.dirs, Vec::<PathBuf>::new());
    assert_eq!(groups.refused[0].0, Controller::Cpu);
    fs::remove_dir(root.path().join("pids")).unwrap();
    let groups = make(&hierarchies, "i1", &[(Controller::Pids, 5)]);
    assert_eq!((groups.dirs.len(), groups.refused.len()), (0, 1));
    assert!(groups.refused[0].1.contains("pids/vestal-i1"), "{:?}", groups.refused);
}

#[test]
fn amounts_are_in_the_kernels_terms() {
    let text = |version, controller, value| {
        let settings = settings(version, controller, value);
        settings.into_iter().map(|(file, text, _)| format!("{file}={text}")).collect::<Vec<_>>()
    };
    assert_eq!(text(CgroupVersion::Two, Controller::Cpu, 1500), ["cpu.max=150000 100000"]);
    assert_eq!(
        text(CgroupVersion::One, Controller::Cpu, 1),
        ["cpu.cfs_period_us=100000", "cpu.cfs_quota_us=1000"],
        "the kernel takes no less"
    );
    assert_eq!(
        text(CgroupVersion::Two, Controller::Memory, 5),
        ["memory.max=5", "memory.swap.max=5"]
    );
    assert_eq!(
        text(CgroupVersion::One, Controller::Memory, 5),
        [
            "memory.memsw.limit_in_bytes=-1",
            "memory.limit_in_bytes=5",
            "memory.memsw.limit_in_bytes=10"
        ],
        "the kernel takes no limit above that of memory and swap together"
    );
}

#[test]
fn a_group_without_the_controller_is_not_asked_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("cgroup.controllers", "cpu memory\n");
    write("cgroup.subtree_control", "cpu\n");
    delegate(dir.path(), Controller::Cpu).unwrap();
    assert!(delegate(dir.path(), Controller::Pids).unwrap_err().to_string().contains("pids"));
    delegate(dir.path(), Controller::Memory).unwrap();
    let asked = fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap();
    assert_eq!(asked, "+memory");
}

#[test]
fn a_limit_that_the_kernel_does_not_take_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let hierarchies = plain(root.path());
    let group = root.path().join("memory/vestal-i1");
    fs::create_dir(&group).unwrap();
    // What is written there is not what is read.
    std::os::unix::fs::symlink("/dev/null", group.join("memory.limit_in_bytes")).unwrap();
    let groups = make(&hierarchies, "i1", &[(Controller::Memory, 1 << 20)]);
    assert_eq!((groups.dirs.len(), groups.refused.len()), (0, 1));
    assert!(groups.refused[0].1.contains("memory.limit_in_bytes"), "{:?}", groups.refused);
}

#[test]
fn groups_without_a_process_and_without_an_instance_are_strays() {
    let root = tempfile::tempdir().unwrap();
    let hierarchies = plain(root.path());
    let group = |name: &str, processes: &str| {
        let dir = root.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("cgroup.procs"), processes).unwrap();
        dir
    };
    let stray = group("memory/vestal-gone", "");
    let deep = group("pids/vestal-deep", "");
    group("pids/vestal-deep/inner", "");
    group("memory/vestal-known", "");
    group("memory/vestal-runs", "7\n");
    group("pids/vestal-below", "");
    group("pids/vestal-below/inner", "7\n");
    group("pids/another", "");
    fs::create_dir(root.path().join("pids/vestal-unknown")).unwrap();
    let known = BTreeSet::from(["known".to_owned()]);
    assert_eq!(stray_groups(&hierarchies, &known), [stray, deep]);
}

#[test]
fn each_controller_is_found_in_the_hierarchy_it_is_mounted_in() {
    let own = "9:name=systemd:/\n8:pids:/\n4:memory:/job/7\n1:cpu,cpuacct:/\n0::/\n";
    let mounts = "\
        31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw shared:3 - cgroup cgroup rw,memory\n\
        39 31 0:36 / /odd\\040place rw - cgroup cgroup rw,pids\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let found = Hierarchies::parse(own, mounts);
    let at = |dir: &str| Some(OwnGroup { version: CgroupVersion::One, dir: dir.into() });
    assert_eq!(found.own(Controller::Cpu), at("/sys/fs/cgroup/cpu,cpuacct"));
    assert_eq!(found.own(Controller::Memory), at("/sys/fs/cgroup/memory/job/7"));
    assert_eq!(found.own(Controller::Pids), at("/odd place"));
}

#[test]
fn kills_for_want_of_memory_are_read_from_either_interface() {
    assert_eq!(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
    assert_eq!(parse_oom_kills("low 0\noom 2\noom_kill 1\noom_group_kill 9\n"), Some(1));
    assert_eq!(parse_oom_kills("oom_kill_disable 0\n"), None);
}

#[test]
fn one_hierarchy_serves_all_and_a_group_outside_of_it_none() {
    let mounts = "29 1 0:26 /docker/a /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";
    let found = Hierarchies::parse("0::/docker/a/b\n", mounts);
    for controller in [Controller::Cpu, Controller::Memory, Controller::Pids] {
        let expected = OwnGroup { version: CgroupVersion::Two, dir: "/sys/fs/cgroup/b".into() };
        assert_eq!(found.own(controller), Some(expected));
    }
    for outside in ["0::/../elsewhere\n", "0::/other\n", "", "garbage"] {
        assert_eq!(Hierarchies::parse(outside, mounts).own(Controller::Cpu), None);
    }
    assert_eq!(Hierarchies::parse("0::/\n", "").own(Controller::Cpu), None);
}
