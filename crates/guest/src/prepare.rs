//! `prepare`: finds the user of jobs in an image, and creates a first home.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::PathBuf;

use vestal_wire::Fault;

use crate::diagnostics::{path_of, quoted};
use crate::files::{self, Filled};
use crate::user::{User, UserError, resolve};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PrepareOptions {
    /// The user, as an image names it; absent: the user of this process.
    pub(crate) user: Option<String>,
    /// The directory to fill with the user's home.
    pub(crate) fill: Option<PathBuf>,
    /// A file for a copy of what is written to standard output.
    pub(crate) report: Option<PathBuf>,
}

/// Why it could not be prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    #[error(transparent)]
    User(#[from] UserError),
    #[error("{}", .0.message)]
    Fill(Fault),
    #[error("report {}: {source}", path.display())]
    Report { path: PathBuf, source: io::Error },
}

/// Finds the user, fills the home, and returns the report.
pub(crate) fn prepare(options: &PrepareOptions) -> Result<String, PrepareError> {
    let user = resolve(options.user.as_deref())?;
    let filled = match &options.fill {
        Some(to) => files::fill(&path_of(&user.home), to).map_err(PrepareError::Fill)?,
        None => Filled::No,
    };
    let report = report(&user, filled);
    if let Some(path) = &options.report {
        let failed = |source| PrepareError::Report { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(path)
            .map_err(failed)?;
        // The umask of a container may be anything.
        file.set_permissions(PermissionsExt::from_mode(0o644)).map_err(failed)?;
        file.write_all(report.as_bytes()).map_err(failed)?;
    }
    Ok(report)
}

fn report(user: &User, filled: Filled) -> String {
    let text = |bytes: &[u8]| quoted(&String::from_utf8_lossy(bytes));
    let maybe =
        |bytes: &Option<Vec<u8>>| bytes.as_deref().map_or_else(|| String::from("null"), text);
    let groups: Vec<String> = user.groups.iter().map(u32::to_string).collect();
    format!(
        "{{\"version\":1,\"uid\":{},\"gid\":{},\"groups\":[{}],\"name\":{},\"home\":{},\"shell\":{},\"filled\":{}}}\n",
        user.uid,
        user.gid,
        groups.join(","),
        maybe(&user.name),
        text(&user.home),
        maybe(&user.shell),
        filled == Filled::Yes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_one_line_of_json_whatever_the_image_says() {
        let user = User {
            uid: 1000,
            gid: 7,
            groups: vec![7, 8],
            name: Some(b"a\"b\n".to_vec()),
            home: b"/home/\xff".to_vec(),
            shell: None,
        };
        let expected = "{\"version\":1,\"uid\":1000,\"gid\":7,\"groups\":[7,8],\"name\":\"a\\\"b\\u000a\",\
            \"home\":\"/home/\u{fffd}\",\"shell\":null,\"filled\":true}\n";
        assert_eq!(report(&user, Filled::Yes), expected);
    }

    #[test]
    fn a_report_is_never_written_over_something() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        let options = PrepareOptions { report: Some(path.clone()), ..PrepareOptions::default() };
        let printed = prepare(&options).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), printed);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        assert!(matches!(prepare(&options), Err(PrepareError::Report { .. })));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(matches!(prepare(&options), Err(PrepareError::Report { .. })));
        assert!(!dir.path().join("elsewhere").exists());
    }
}
