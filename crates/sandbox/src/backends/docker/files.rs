//! Files of a sandbox: showing it some of the host's, copying its own, deleting
//! them.
//!
//! Its own belong to users of the container. Where this user may not read them, or
//! may not give them to whom they belong, they are copied from inside.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bollard::query_parameters::{ListImagesOptions, UploadToContainerOptionsBuilder};
use futures_util::StreamExt as _;

use super::api::{self, Client};
use super::backend::Docker;
use super::helper::{ErrandError, Listener, Request, Runner, end_copies};
use super::identity::{DockerLocator, Transport};
use super::plan::{BOOT_DIR, GUEST_FILE};
use crate::backend::{BackendError, CopyTotals, Instance};
use crate::backends::copying::{self, How, Said};
use crate::backends::show;
use crate::embedded::{GUEST_PROGRAM, STAGE_PROGRAM};
use crate::publish::{Bundle, Content, PublishedName, version_name};
use crate::store::{StoreError, remove_tree};
use crate::{Progress, ProgressSink};

/// Where it is kept what a container was sent that does not share our files.
const SENT: &str = "sent";

impl Docker {
    /// Shows files to a container: by the directory it finds its guest in where
    /// that is mounted, which it may only read, else by sending them there.
    pub(super) async fn show(
        &self,
        instance: &Instance,
        name: &PublishedName,
        bundle: &Bundle,
    ) -> Result<PathBuf, BackendError> {
        let locator = DockerLocator::of_instance(instance)
            .ok_or_else(|| BackendError::NotListening { id: instance.id.clone() })?;
        match locator.transport {
            Transport::Socket { .. } => {
                show::show(instance, "boot", name, bundle).await?;
            }
            Transport::Exec => {
                let client = self.client().await?;
                self.send(&client, &locator.container, instance, name, bundle).await?;
            }
        }
        Ok(Path::new(BOOT_DIR).join(name.shelf()).join(name.name()))
    }

    /// Sends files to a container, unless it has them. Root in the container can
    /// change them there: an engine sends nothing to where nobody may write.
    async fn send(
        &self,
        client: &Client,
        container: &str,
        instance: &Instance,
        name: &PublishedName,
        bundle: &Bundle,
    ) -> Result<(), BackendError> {
        let failed = || BackendError::io(format!("show {name} to the sandbox"));
        let dir = instance.dir.clone();
        let lock = tokio::task::spawn_blocking(move || {
            fs::create_dir_all(dir.join(SENT))?;
            show::lock(&dir)
        });
        let lock = lock.await.map_err(|error| io::Error::other(error.to_string()));
        let _lock = lock.flatten().map_err(failed())?;
        let note = instance.dir.join(SENT).join(format!("{}.{}", name.shelf(), name.name()));
        let version = version_name(name, bundle);
        let before = fs::read_to_string(&note).ok();
        if before.as_deref() == Some(&*version) {
            return Ok(());
        }
        let archive = archive(name, &version, bundle).map_err(failed())?;
        let options = UploadToContainerOptionsBuilder::new().path(BOOT_DIR).build();
        let body = bollard::body_full(archive.into());
        let sent = client.api().upload_to_container(container, Some(options), body).await;
        sent.map_err(client.error("send files into the container"))?;
        if let Some(before) = before.filter(|before| before.starts_with('.')) {
            let old = format!("{BOOT_DIR}/{}/{before}", name.shelf());
            // What stays of a version before is in nobody's way.
            if let Err(error) = empty_inside(client, container, &old).await {
                tracing::debug!(%error, old, "left in the container");
            }
        }
        fs::write(&note, &version).map_err(failed())
    }
}

/// Packs a version and the link that shows it, which comes last.
fn archive(name: &PublishedName, version: &str, bundle: &Bundle) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let header = |kind: tar::EntryType, mode: u32, size: usize| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(size as u64);
        header
    };
    let shelf = Path::new(name.shelf());
    let root = shelf.join(version);
    for dir in [shelf, &root] {
        let mut header = header(tar::EntryType::Directory, 0o755, 0);
        builder.append_data(&mut header, dir, io::empty())?;
    }
    for item in bundle.items() {
        let path = root.join(&item.path);
        match &item.content {
            Content::Dir => {
                let mut header = header(tar::EntryType::Directory, 0o755, 0);
                builder.append_data(&mut header, &path, io::empty())?;
            }
            Content::File { bytes, executable } => {
                let mode = if *executable { 0o555 } else { 0o444 };
                let mut header = header(tar::EntryType::Regular, mode, bytes.len());
                builder.append_data(&mut header, &path, &**bytes)?;
            }
            Content::Link(target) => {
                let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                builder.append_link(&mut header, &path, target)?;
            }
        }
    }
    let mut link = header(tar::EntryType::Symlink, 0o777, 0);
    builder.append_link(&mut link, shelf.join(name.name()), version)?;
    builder.into_inner()
}

/// Empties a directory of a container, as its root.
async fn empty_inside(client: &Client, container: &str, dir: &str) -> Result<(), BackendError> {
    let body = ExecConfig {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        user: Some("0".to_owned()),
        cmd: Some([GUEST_FILE, "erase", dir].map(str::to_owned).into()),
        ..ExecConfig::default()
    };
    let refused = client.error("run a program in the container");
    let exec = client.api().create_exec(container, body).await.map_err(refused)?;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: None };
    let refused = client.error("run a program in the container");
    if let StartExecResults::Attached { mut output, .. } =
        client.api().start_exec(&exec.id, Some(options)).await.map_err(refused)?
    {
        while output.next().await.is_some_and(|piece| piece.is_ok()) {}
    }
    Ok(())
}

/// Where what is copied is found inside.
const FROM: &str = "/.vestal/from";

/// Where the directory that it is copied to is found inside.
const INTO: &str = "/.vestal/into";

impl Docker {
    /// Copies a tree of a sandbox's files to where nothing is yet.
    pub(super) async fn copy_tree(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let program = STAGE_PROGRAM.install(&self.run_dir).map_err(BackendError::io(format!(
            "put the program that copies files into {}",
            self.run_dir.display()
        )))?;
        let tree = from.to_owned();
        let own = tokio::task::spawn_blocking(move || may_copy(&tree)).await.unwrap_or(false);
        let what = what(from);
        if own {
            copying::copy(&program, &How::AsSelf, from, to, &what, progress).await
        } else {
            let hearing = Hearing { what: &what, progress, end: Mutex::default() };
            self.copy_inside(&program, from, to, &hearing).await
        }
    }

    async fn copy_inside(
        &self,
        program: &Path,
        from: &Path,
        to: &Path,
        hearing: &Hearing<'_>,
    ) -> Result<CopyTotals, BackendError> {
        let client = self.client().await?;
        let image = self.any_image(&client).await?;
        let failed = |message: String| BackendError::Engine {
            action: format!("copy {} from inside a container", hearing.what),
            message,
        };
        let (Some(parent), Some(name)) = (to.parent(), to.file_name().and_then(|n| n.to_str()))
        else {
            return Err(failed(format!("{} is no place for a copy", to.display())));
        };
        let request = Request { home: &self.home, image: &image, user: None };
        let words = vec!["copy".to_owned(), FROM.to_owned(), format!("{INTO}/{name}")];
        let mounts = vec![(from, FROM), (parent, INTO)];
        let as_host = client.info().await?.maps_root_away();
        let runner = Runner::Copier { program, into: to, as_host, listener: hearing };
        let went = self.errand(&client, request, words, mounts, runner).await;
        match (went, hearing.end()) {
            (Ok(_), Some(Said::Done(copied))) => Ok(copied),
            (_, Some(Said::Refused(refusal))) => {
                let refusal = refusal.seen_as(FROM, from).seen_as(INTO, parent);
                Err(refusal.explain(hearing.what, to))
            }
            (Err(ErrandError::Backend(error)), _) => Err(error),
            (Err(error), _) => Err(failed(error.to_string())),
            (Ok(_), _) => Err(failed("it did not say that it is whole".to_owned())),
        }
    }
}

/// Returns what people know a tree as.
fn what(from: &Path) -> String {
    let name = from.file_name().map(|name| name.to_string_lossy().into_owned());
    format!("the sandbox's {}", name.as_deref().unwrap_or("files"))
}

/// Hears how far the copy inside is.
#[derive(Debug)]
struct Hearing<'a> {
    what: &'a str,
    progress: &'a ProgressSink,
    end: Mutex<Option<Said>>,
}

impl Hearing<'_> {
    /// Returns how it ended, if it said so.
    fn end(&self) -> Option<Said> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Listener for Hearing<'_> {
    fn hear(&self, line: &str) {
        match Said::parse(line) {
            Some(Said::Progress { files, bytes, total }) => {
                let what = self.what.to_owned();
                self.progress.tell(Progress::Copying { what, files, bytes, total });
            }
            // What nobody understands makes no copy whole.
            None => {}
            end => {
                if let Some(Said::Done(copied)) = &end {
                    self.progress.tell(copied.told(self.what));
                }
                *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
            }
        }
    }
}

/// Returns whether this user may read all of a tree and give a copy to whom it
/// belongs. What cannot be told is left to somebody who may.
fn may_copy(top: &Path) -> bool {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return true;
    }
    let groups = rustix::process::getgroups().unwrap_or_default();
    let mut groups: Vec<u32> = groups.iter().map(|group| group.as_raw()).collect();
    groups.push(rustix::process::getegid().as_raw());
    let mut to_see = vec![top.to_owned()];
    while let Some(path) = to_see.pop() {
        let Ok(metadata) = path.symlink_metadata() else { return false };
        if metadata.uid() != user.as_raw() || !groups.contains(&metadata.gid()) {
            return false;
        }
        if metadata.is_dir() {
            let Ok(entries) = std::fs::read_dir(&path) else { return false };
            for entry in entries {
                let Ok(entry) = entry else { return false };
                to_see.push(entry.path());
            }
        } else if metadata.is_file() && metadata.mode() & 0o400 == 0 {
            // One's own file that one may not read.
            return false;
        }
    }
    true
}

/// Where the directory to empty is mounted for the errand.
const DIR_TO_EMPTY: &str = "/.vestal/dir";

impl Docker {
    /// Removes the directory of an instance.
    pub(super) async fn remove_instance_dir(&self, dir: &Path) -> Result<(), BackendError> {
        match remove_tree(dir) {
            Ok(()) => Ok(()),
            Err(StoreError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                self.empty(dir).await?;
                remove_tree(dir).map_err(|error| BackendError::Io {
                    action: format!("remove {}", dir.display()),
                    source: std::io::Error::other(error),
                })
            }
            Err(error) => Err(BackendError::Io {
                action: format!("remove {}", dir.display()),
                source: std::io::Error::other(error),
            }),
        }
    }

    /// Empties a directory from inside a container, whose root may do what
    /// this user may not.
    pub(super) async fn empty(&self, dir: &Path) -> Result<(), BackendError> {
        let client = self.client().await?;
        end_copies(&client, &self.home, dir).await?;
        let image = self.any_image(&client).await?;
        let program = GUEST_PROGRAM
            .install(&self.run_dir)
            .map_err(BackendError::io(format!("put the guest into {}", self.run_dir.display())))?;
        let request = Request { home: &self.home, image: &image, user: None };
        let words = vec!["erase".to_owned(), DIR_TO_EMPTY.to_owned()];
        let mounts = vec![(dir, DIR_TO_EMPTY)];
        let as_host = client.info().await?.maps_root_away();
        let runner = Runner::Eraser { program: &program, as_host };
        let emptied = self.errand(&client, request, words, mounts, runner).await;
        emptied.map(drop).map_err(|error| match error {
            ErrandError::Backend(error) => error,
            other => BackendError::Engine {
                action: format!("empty {}", dir.display()),
                message: other.to_string(),
            },
        })
    }

    /// Returns an image that is there: the guest needs nothing in it.
    pub(super) async fn any_image(&self, client: &Client) -> Result<String, BackendError> {
        let configured = self.settings.get(&vestal_config::keys::DOCKER_IMAGE)?.value;
        if api::exists(client, configured.as_str()).await? {
            return Ok(configured.as_str().to_owned());
        }
        let listed = client.api().list_images(None::<ListImagesOptions>).await;
        let listed = listed.map_err(client.error("list images"))?;
        listed.into_iter().next().map(|image| image.id).ok_or_else(|| BackendError::NoImage {
            image: configured.as_str().to_owned(),
            reason: "files of the sandbox belong to another user and can only be removed from \
                     inside a container"
                .to_owned(),
            advice: format!("pull an image: docker pull {}", configured.as_str()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_copier_says_is_passed_on_and_only_its_last_word_counts() {
        let told = std::sync::Arc::new(Mutex::new(Vec::new()));
        let telling = std::sync::Arc::clone(&told);
        let progress = ProgressSink::new(move |step| telling.lock().unwrap().push(step));
        let hearing = Hearing { what: "the home", progress: &progress, end: Mutex::default() };
        hearing.hear(r#"{"files":1,"bytes":2,"total":null}"#);
        hearing.hear("rubbish");
        assert_eq!(hearing.end(), None);
        let what = "the home".to_owned();
        let step = Progress::Copying { what, files: 1, bytes: 2, total: None };
        let copied = CopyTotals { files: 3, bytes: 4 };
        hearing.hear(r#"{"done":true,"files":3,"bytes":4,"skipped":0}"#);
        assert_eq!(hearing.end(), Some(Said::Done(copied)));
        assert_eq!(*told.lock().unwrap(), [step, copied.told("the home")]);
    }
}
