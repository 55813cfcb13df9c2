use proptest::prelude::*;

use super::*;
use crate::settings::keys;
use crate::settings::testing::TestHome;

const DIGEST: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

#[test]
fn names_that_engines_take_are_taken() {
    for name in [
        "debian",
        "debian:12",
        "library/debian:12-slim",
        "nikolaik/python-nodejs:python3.11-nodejs20",
        "localhost/mine:latest",
        "localhost:5000/a/b/c:1",
        "Registry.Example.com:443/team/image:V1.0_x",
        "[2001:db8::1]:5000/image",
        "quay.io/a__b/c-d.e",
        "3f57d9401f8d",
        &format!("sha256:{DIGEST}"),
        &format!("debian@sha256:{DIGEST}"),
        &format!("ghcr.io/owner/image:tag@sha256:{DIGEST}"),
    ] {
        assert_eq!(ImageName::new(name).map(|own| own.as_str().to_owned()), Ok(name.to_owned()));
    }
    let default = keys::DOCKER_IMAGE.default_value();
    assert_eq!(ImageName::new(default.as_str()).as_ref(), Ok(default));
}

#[test]
fn what_is_no_name_of_an_image_is_refused_with_the_reason() {
    for (name, reason) in [
        ("", "is empty"),
        ("-v", "begins with -, like a flag"),
        ("debian 12", "contains white space"),
        ("debian\n", "contains white space"),
        ("Debian", "has capital letters before the tag, which engines refuse"),
        ("docker://debian", "is an address; an image is named without the part up to ://"),
        ("debian:", "has a tag that is not letters, digits, ., _ and -"),
        ("debian:-x", "has a tag that is not letters, digits, ., _ and -"),
        ("debian@sha256:12", "has something after @ that is not sha256: and 64 hexadecimal digits"),
        ("a//b", "is not the name of an image"),
        ("/a", "is not the name of an image"),
        ("a/", "is not the name of an image"),
        ("debian;rm", "is not the name of an image"),
        ("ümlaut", "is not the name of an image"),
    ] {
        assert_eq!(ImageName::new(name), Err(reason.to_owned()), "{name:?}");
    }
    assert!(ImageName::new(&"a".repeat(513)).is_err());
}

#[test]
fn only_a_whole_id_is_an_id() {
    let is_id = |name: &str| ImageName::new(name).expect("a name").is_id();
    assert!(is_id(&format!("sha256:{DIGEST}")));
    assert!(!is_id("sha256:2c26b46b68ff"));
    assert!(!is_id(&format!("debian@sha256:{DIGEST}")));
    assert!(!is_id(DIGEST));
}

proptest! {
    #[test]
    fn no_image_name_hides_a_flag_or_white_space(name in "[-a-zA-Z0-9._/:@ \\n\u{e9}]{0,20}") {
        if let Ok(image) = ImageName::new(&name) {
            prop_assert!(!image.as_str().starts_with('-'));
            prop_assert!(image.as_str().chars().all(|c| c.is_ascii_graphic()));
        }
    }
}

#[test]
fn the_program_of_the_engine_is_a_name_or_a_whole_path() {
    let resolve = |text: &str| {
        let home = Path::new("/home/ada");
        DockerBinary::read(SettingInput::Text(text.as_ref()), &())
            .map(|own| own.resolve(Some(home)))
    };
    assert_eq!(resolve("podman"), Ok(Some("podman".into())));
    assert_eq!(resolve("/usr/bin/docker"), Ok(Some("/usr/bin/docker".into())));
    assert_eq!(resolve("~/bin/docker"), Ok(Some("/home/ada/bin/docker".into())));
    for text in ["", "bin/docker", "./docker", "docker run", "-x", ".", "..", "~", "~bob"] {
        assert!(resolve(text).is_err(), "{text:?}");
    }
    assert_eq!(DockerBinary::Found.resolve(None), None);
    let home = TestHome::with_config("terminal:\n  docker_binary: \"\"\n");
    let binary = home.settings(&[], &[]).get(&keys::DOCKER_BINARY).expect("fine").value;
    assert_eq!(binary, DockerBinary::Found);
}
