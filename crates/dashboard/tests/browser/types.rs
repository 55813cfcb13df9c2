//! The modules of the pages, read by the compiler of TypeScript: a name that is not there, a call with
//! the wrong arguments and an element that may be missing are found before a browser meets them.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use tokio::process::Command;

use crate::packages;

#[derive(Deserialize)]
struct Vendored {
    file: String,
    name: String,
    path: String,
}

impl Vendored {
    /// Returns the name under which the package publishes this file, and its types.
    fn specifier(&self) -> String {
        let path = self.path.trim_start_matches("package/");
        let part = ["dist/", "lib/", "src/"].iter().find_map(|dir| path.split_once(dir));
        let part = part.map_or("", |(part, _)| part.trim_end_matches('/'));
        if part.is_empty() { self.name.clone() } else { format!("{}/{part}", self.name) }
    }
}

/// Puts our modules into a directory, and beside them the declarations of those that are not ours.
fn stage(dir: &Path) {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    for part in ["", "pages"] {
        let (from, to) = (assets.join(part), dir.join(part));
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "js") {
                std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    std::fs::create_dir(dir.join("vendor")).unwrap();
    let manifest = std::fs::read(assets.join("vendor/manifest.json")).unwrap();
    let manifest: Vec<Vendored> = serde_json::from_slice(&manifest).unwrap();
    for vendored in manifest {
        let specifier = vendored.specifier();
        let mut text = format!("export * from {specifier:?};\n");
        writeln!(text, "export {{ default }} from {specifier:?};").unwrap();
        let file = Path::new(&vendored.file);
        let extension = match file.extension().and_then(|extension| extension.to_str()) {
            Some("mjs") => "d.mts",
            Some("js") => "d.ts",
            _ => continue,
        };
        std::fs::write(dir.join("vendor").join(file.with_extension(extension)), text).unwrap();
    }
    std::os::unix::fs::symlink(packages().join("node_modules"), dir.join("node_modules")).unwrap();
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/tsconfig.json");
    std::fs::copy(config, dir.join("tsconfig.json")).unwrap();
}

#[tokio::test]
async fn every_module_of_a_page_agrees_with_the_types_of_what_it_uses() {
    let dir = tempfile::tempdir().unwrap();
    stage(dir.path());
    let compiler = packages().join("node_modules/.bin/tsc");
    let checked = Command::new(compiler)
        .args(["--project", "."])
        .current_dir(dir.path())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the compiler of TypeScript is not installed; scripts/test installs it");
    let reply = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{reply}");
}
