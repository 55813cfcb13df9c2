use super::*;

mod target {
    use super::*;
    use crate::testing::AgentFixture;

    async fn located(stage: &AgentFixture, path: &str) -> ResolvedPath {
        let files = stage.context.sandbox.files(&stage.context.events).await.unwrap();
        resolve(&files, path).await.unwrap()
    }

    fn canonical(path: &Path) -> PathBuf {
        path.canonicalize().unwrap()
    }

    #[tokio::test]
    async fn a_path_means_what_the_sandbox_takes_it_for() {
        let stage = AgentFixture::new();
        let start = stage.start_dir();
        for path in ["new/file", "./new/file", "~/new/file", "~//new/file", "x/../new/file"] {
            let target = located(&stage, path).await;
            assert_eq!(target.absolute, start.join("new/file"), "{path}");
            assert_eq!(target.real, canonical(&start).join("new/file"), "{path}");
        }
        assert_eq!(located(&stage, "/a/b/../c").await.absolute, Path::new("/a/c"));
    }

    #[tokio::test]
    async fn links_are_followed_to_where_they_lead() {
        let stage = AgentFixture::new();
        let start = stage.start_dir();
        let real = canonical(&start);
        std::fs::create_dir_all(start.join("deep/dir")).unwrap();
        std::os::unix::fs::symlink("deep/dir", start.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", start.join("deep/dir/users")).unwrap();
        std::os::unix::fs::symlink("../../link", start.join("deep/dir/back")).unwrap();
        std::os::unix::fs::symlink("round", start.join("round")).unwrap();
        assert_eq!(located(&stage, "link/file").await.real, real.join("deep/dir/file"));
        assert_eq!(located(&stage, "link/users").await.real, canonical(Path::new("/etc/passwd")));
        assert_eq!(
            located(&stage, "link/back/users").await.real,
            canonical(Path::new("/etc/passwd"))
        );
        // What is above a link is above where it leads, as the kernel has it.
        assert_eq!(located(&stage, "link/../x").await.real, real.join("deep/x"));
        assert_eq!(located(&stage, "round/x").await.real, start.join("round/x"));
    }
}

mod nearby {
    use super::*;

    #[test]
    fn names_with_a_slip_or_another_ending_are_offered_best_first() {
        let names = ["main.rs", "mian.rs", "Main.py", "lib.rs", "mod.rs"].map(str::to_owned);
        assert_eq!(most_alike("main.rs", names.into_iter()), ["main.rs", "mian.rs", "Main.py"]);
    }

    #[test]
    fn no_more_than_five_are_offered() {
        let names = (0..20).map(|n| format!("file{n}.txt"));
        assert_eq!(most_alike("file.txt", names).len(), OFFERED);
    }
}

mod secrets {
    use super::*;

    #[test]
    fn devices_and_the_insides_of_processes_are_not_read() {
        for path in [
            "/dev/zero",
            "/dev/fd/3",
            "/dev",
            "/proc/self/environ",
            "/proc/1/cmdline",
            "/proc/12/task/13/environ",
            "/proc/self/fd/0",
            "/proc/self/mem",
            "/proc/kcore",
        ] {
            assert!(matches!(readable(Path::new(path)), Readable::No(_)), "{path}");
        }
    }

    #[test]
    fn other_files_are_read() {
        for path in ["/proc/cpuinfo", "/proc/self/status", "/dev/shm/x", "/srv/dev/null", "/devel"]
        {
            assert_eq!(readable(Path::new(path)), Readable::Yes, "{path}");
        }
    }
}
