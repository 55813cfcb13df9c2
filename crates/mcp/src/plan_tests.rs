use super::*;

mod command {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct ServerDirs {
        dir: tempfile::TempDir,
        places: SearchDirs,
    }

    impl ServerDirs {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            let places =
                SearchDirs { homes: vec![at("home")], user_home: Some(at("user")), cwd: None };
            Self { dir, places }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn put(&self, name: &str, mode: u32) -> PathBuf {
            let file = self.at(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            file
        }

        fn path(&self) -> OsString {
            std::env::join_paths([self.at("first"), self.at("second")]).unwrap()
        }
    }

    #[test]
    fn a_name_is_looked_up_in_the_servers_own_path() {
        let server = ServerDirs::new();
        server.put("first/tool", 0o644);
        let program = server.put("second/tool", 0o755);
        let found = find_program("tool", &server.path(), &server.places).unwrap();
        assert_eq!(found, FoundCommand { program, path: server.path() });
    }

    #[test]
    fn programs_of_node_are_looked_for_beyond_it_and_their_directory_comes_first() {
        let server = ServerDirs::new();
        for (place, name) in [("user/.local/bin", "npm"), ("home/node/bin", "npm")] {
            let program = server.put(&format!("{place}/{name}"), 0o755);
            let found = find_program(name, &server.path(), &server.places).unwrap();
            let dirs: Vec<PathBuf> = std::env::split_paths(&found.path).collect();
            assert_eq!(found.program, program);
            assert_eq!(dirs, [server.at(place), server.at("first"), server.at("second")]);
        }
        server.put("user/.local/bin/tool", 0o755);
        assert!(find_program("tool", &server.path(), &server.places).is_err());
    }

    #[test]
    fn a_missing_program_is_reported_with_the_searched_places_and_advice() {
        let server = ServerDirs::new();
        let mut places = server.places.clone();
        places.user_home = None;
        let error =
            find_program("no-such-program", &server.path(), &places).unwrap_err().to_string();
        assert!(error.contains("no-such-program is not in the PATH"), "{error}");
        assert!(error.contains(&server.at("second").display().to_string()), "{error}");
        assert!(error.contains("install it") && !error.contains("node/bin"), "{error}");
        if let Err(error) = find_program("npx", &server.path(), &server.places) {
            let error = error.to_string();
            assert!(
                error.contains("home/node/bin") && error.contains("user/.local/bin"),
                "{error}"
            );
            assert!(
                error.contains("/usr/local/bin") && error.contains("install Node.js"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_path_is_itself() {
        let server = ServerDirs::new();
        let program = server.put("user/bin/tool", 0o755);
        for command in ["~/bin/tool", program.to_str().unwrap()] {
            let found = find_program(command, &server.path(), &server.places).unwrap();
            assert_eq!(found.program, program);
            let first = std::env::split_paths(&found.path).next();
            assert_eq!(first, Some(server.at("user/bin")));
        }
        let error =
            find_program("~/bin/other", &server.path(), &server.places).unwrap_err().to_string();
        assert!(error.contains("user/bin/other cannot be started (No such file"), "{error}");
        server.put("user/bin/other", 0o644);
        let error =
            find_program("~/bin/other", &server.path(), &server.places).unwrap_err().to_string();
        assert!(error.contains("may not be run by you") && error.contains("chmod +x"), "{error}");
        let error = find_program("~/bin", &server.path(), &server.places).unwrap_err().to_string();
        assert!(error.contains("user/bin is a directory"), "{error}");
    }

    #[test]
    fn a_path_that_is_not_whole_begins_where_the_program_is_started() {
        let server = ServerDirs::new();
        let program = server.put("project/bin/tool", 0o755);
        let places = SearchDirs { cwd: Some(server.at("project")), ..server.places.clone() };
        let found = find_program("bin/tool", &server.path(), &places).unwrap();
        assert_eq!(found.program, program);
        let found = find_program("./bin/tool", &server.path(), &places).unwrap();
        assert_eq!(found.program.canonicalize().unwrap(), program.canonicalize().unwrap());
    }
}

mod environment {
    use super::*;

    #[test]
    fn a_server_gets_what_is_harmless_and_what_is_configured_for_it() {
        let own = Environment::from_pairs([
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("XDG_CACHE_HOME", "/c"),
            ("OPENAI_API_KEY", "secret"),
            ("LD_PRELOAD", "/evil.so"),
            ("LC_DEPLOY_TOKEN", "secret"),
            ("HOME", "/home/ada"),
        ]);
        let configured = [("TOKEN", "t"), ("HOME", "/srv")].map(|(n, v)| (n.into(), v.into()));
        let mut all = of_server(&own, configured);
        all.sort();
        let expected = [
            ("HOME", "/srv"),
            ("LC_ALL", "C"),
            ("PATH", "/bin"),
            ("TOKEN", "t"),
            ("XDG_CACHE_HOME", "/c"),
        ];
        assert_eq!(all, expected.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn without_a_path_there_is_the_usual_one() {
        let all = of_server(&Environment::default(), []);
        assert_eq!(path_of(&all), OsStr::new(USUAL_PATH));
    }
}
