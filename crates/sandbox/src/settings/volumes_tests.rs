use std::ffi::OsStr;
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Volumes, ValueRefusal> {
    Volumes::read(SettingInput::Text(OsStr::new(text)), &())
}

fn host(path: &str) -> VolumeSource {
    VolumeSource::Host(HostPath::new(path).expect("a path"))
}

#[test]
fn a_volume_is_read_into_its_parts() {
    let plain = Volume {
        source: host("/a"),
        target: "/b".to_owned(),
        read_only: false,
        relabel: None,
        propagation: None,
        no_copy: false,
    };
    assert_eq!(Volume::parse("/a:/b"), Ok(plain.clone()));
    assert_eq!(Volume::parse("/a:/b:rw"), Ok(plain.clone()));
    assert_eq!(Volume::parse("/a://b/./"), Ok(plain.clone()));
    let full = Volume {
        read_only: true,
        relabel: Some(Relabel::Private),
        propagation: Some(Propagation::Rslave),
        ..plain.clone()
    };
    assert_eq!(Volume::parse("/a:/b:rslave,Z,ro"), Ok(full.clone()));
    assert_eq!(full.spec(), "/a:/b:ro,Z,rslave");
    let named =
        Volume { source: VolumeSource::Named("cache_1".to_owned()), no_copy: true, ..plain };
    assert_eq!(Volume::parse("cache_1:/b:nocopy"), Ok(named.clone()));
    assert_eq!(named.spec(), "cache_1:/b:nocopy");
    for word in ["private", "rprivate", "shared", "rshared", "slave", "rslave"] {
        let volume = Volume::parse(&format!("/a:/b:{word}")).expect("fine");
        assert_eq!(volume.options(), [word]);
    }
}

#[test]
fn the_users_home_is_put_in_where_it_is_known() {
    let home = Path::new("/home/ada");
    let bind = |spec: &str, home| Volume::parse(spec).expect("fine").bind(home);
    assert_eq!(bind("~:/h", Some(home)).as_deref(), Some("/home/ada:/h"));
    assert_eq!(bind("~/src:/src:ro", Some(home)).as_deref(), Some("/home/ada/src:/src:ro"));
    assert_eq!(bind("~/src:/src", None), None);
    assert_eq!(bind("/a:/b", None).as_deref(), Some("/a:/b"));
    assert_eq!(bind("cache:/b", None).as_deref(), Some("cache:/b"));
}

#[test]
fn a_wrong_volume_is_refused_with_the_reason() {
    for (spec, reason) in [
        ("", "has no target"),
        ("/data", "has no target"),
        (":/b", "has no source"),
        ("/a:", "has the target \"\", which is not an absolute path"),
        ("/a:b", "has the target \"b\", which is not an absolute path"),
        ("/a:/b:ro:z", "has more than three parts"),
        ("/a:/", "has the target /, which would hide the image"),
        ("/a:/./", "has the target /, which would hide the image"),
        ("/a:/.vestal", "has the target \"/.vestal\", where Vestal's own files are"),
        ("/a://.vestal/./run", "has the target \"//.vestal/./run\", where Vestal's own files are"),
        ("/a:/b/../.vestal", "has the target \"/b/../.vestal\", which goes up with .."),
        ("/a:/b:rx", "has the unknown option \"rx\""),
        ("/a:/b:", "has the unknown option \"\""),
        ("/a:/b:ro,rw", "has both ro and rw"),
        ("/a:/b:z,Z", "has both z and Z"),
        ("/a:/b:shared,slave", "has two words for propagation"),
        ("/a:/b:nocopy", "has nocopy, which is for named volumes only"),
        ("cache:/b:rshared", "has rshared, which is for paths of the host only"),
        (
            "~bob/x:/b",
            "has the source \"~bob/x\", which is in another user's home, which is not looked up",
        ),
        ("/a\0:/b", "has the source \"/a\\0\", which contains a NUL character"),
        ("/a:/b\0", "has a target with a NUL character"),
        (
            "./src:/src",
            "has a relative path for its source, which would mean another place in every directory \
             (write the whole path, such as /home/me/src:/src)",
        ),
        (
            "x:/b",
            "has the source \"x\", which is neither an absolute path nor the name of a volume \
             (two or more letters, digits, _, . and -, the first a letter or a digit)",
        ),
    ] {
        assert_eq!(Volume::parse(spec), Err(reason.to_owned()), "{spec:?}");
    }
    for spec in ["..:/b", "a/b:/b", "-x:/b", "$HOME:/b", "C\\x:/b", "a b:/b"] {
        assert!(Volume::parse(spec).is_err(), "{spec:?}");
    }
    // What only begins like our directory is somebody else's.
    assert!(Volume::parse("/a:/.vestalx").is_ok());
}

#[test]
fn an_error_quotes_the_volume_and_shows_the_form() {
    let refusal = read(r#"["/ok:/ok", "src:rel"]"#).expect_err("wrong");
    assert_eq!(
        refusal.reason,
        "holds \"src:rel\", which has the target \"rel\", which is not an absolute path"
    );
    assert!(Volumes::allowed(&()).starts_with("a list of SOURCE:TARGET[:OPTIONS]: "));
    assert_eq!(
        read(r#"["/a:/x", "/b:/x/"]"#).expect_err("twice").reason,
        "mounts two things at /x"
    );
    for (text, reason) in [
        ("/a:/b", "is not JSON (expected value at line 1 column 1)"),
        ("\"/a:/b\"", "is a single value, not a list"),
        ("{\"/a\": \"/b\"}", "is a map, not a list"),
        ("[[\"/a:/b\"]]", "holds an item that is a list, not text"),
        ("[null]", "holds an item that is empty, not text"),
    ] {
        let refusal = read(text).expect_err("wrong");
        assert_eq!(refusal.reason, reason, "{text}");
        assert_eq!(
            refusal.suggestion.as_deref(),
            Some("write it as [\"/host/path:/container/path\"]")
        );
    }
}

#[test]
fn mounts_that_give_the_host_away_are_named() {
    for source in ["/", "//", "/./", "/etc/..", "/.."] {
        let volume = Volume::parse(&format!("{source}:/host:ro")).expect("fine");
        let expected = format!("{source}:/host:ro mounts the whole filesystem of the host");
        assert_eq!(volume.weakens(), Some(expected));
    }
    for source in [
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
        "~/.docker/run/docker.sock",
        "/run/user/1000/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run",
        "/var/run",
        "/run/user",
        "/run/user/1000",
        "/run/user/1000/podman",
        "/run/podman/",
    ] {
        let volume = Volume::parse(&format!("{source}:/x")).expect("fine");
        assert!(volume.weakens().is_some(), "{source}");
    }
    for source in ["/srv", "~", "~/src", "/run/mine", "/var", "/run/user1", "docker.sock"] {
        let volume = Volume::parse(&format!("{source}:/x")).expect("fine");
        assert_eq!(volume.weakens(), None, "{source}");
    }
    let volumes = read(r#"["/srv:/srv", "/:/host"]"#).expect("fine");
    assert_eq!(volumes.weakens(), ["/:/host mounts the whole filesystem of the host"]);
}

proptest! {
    #[test]
    fn no_volume_panics_or_reaches_our_own_directory(spec in "[a~/.:,]{0,8}(/|/\\.vestal|/b)?[/:.a-z,]{0,12}") {
        if let Ok(volume) = Volume::parse(&spec) {
            prop_assert!(volume.target.starts_with('/') && volume.target != "/");
            let parts: Vec<_> = volume.target.split('/').skip(1).collect();
            prop_assert!(parts.iter().all(|part| !matches!(*part, "" | "." | "..")));
            prop_assert!(parts[0] != ".vestal");
            // The fixed form means the same.
            prop_assert_eq!(Volume::parse(&volume.spec()), Ok(volume));
        }
    }

    #[test]
    fn no_text_panics(spec in any::<String>()) {
        drop(Volume::parse(&spec).map(|volume| volume.weakens()));
    }
}
