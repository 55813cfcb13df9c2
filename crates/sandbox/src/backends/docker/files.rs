//! Files of a sandbox: publishing the host's files to it, copying and deleting its
//! own.
//!
//! Its own files belong to users of the container. Where this user may not read
//! them, or may not give them to their owner, a helper container copies them.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bollard::query_parameters::{ListImagesOptions, UploadToContainerOptionsBuilder};
use futures_util::StreamExt as _;

use super::api::{self, EngineClient};
use super::backend::Docker;
use super::helper::{HelperError, HelperOutput, HelperProgram, HelperRequest, end_copies_into};
use super::identity::{DockerLocator, GuestTransport};
use super::plan::{BOOT_DIR, GUEST_FILE};
use crate::backend::{BackendError, CopyTotals, Instance};
use crate::backends::boot;
use crate::backends::copying::{self, CopyReport, CopyingUser};
use crate::embedded::{GUEST_PROGRAM, STAGE_PROGRAM};
use crate::publish::{Bundle, BundleContent, PublishedName, version_name};
use crate::store::{StoreError, remove_tree};
use crate::{Progress, ProgressSink};

/// Directory, beside the instance, that records which files were uploaded to a
/// container that does not share the host's files.
const SENT: &str = "sent";

impl Docker {
    /// Publishes files in the container's boot directory: on the host if that is
    /// mounted, which the container may only read, else by an upload.
    pub(super) async fn publish_files(
        &self,
        instance: &Instance,
        name: &PublishedName,
        bundle: &Bundle,
    ) -> Result<PathBuf, BackendError> {
        let locator = DockerLocator::of_instance(instance)
            .ok_or_else(|| BackendError::NotListening { id: instance.id.clone() })?;
        match locator.transport {
            GuestTransport::Socket { .. } => {
                boot::publish_bundle(instance, "boot", name, bundle).await?;
            }
            GuestTransport::Exec => {
                let client = self.client().await?;
                self.upload_bundle(&client, &locator.container, instance, name, bundle).await?;
            }
        }
        Ok(Path::new(BOOT_DIR).join(name.shelf()).join(name.name()))
    }

    /// Uploads files to a container, unless it has them. Root in the container can
    /// change them: an engine does not upload to a read-only volume.
    async fn upload_bundle(
        &self,
        client: &EngineClient,
        container: &str,
        instance: &Instance,
        name: &PublishedName,
        bundle: &Bundle,
    ) -> Result<(), BackendError> {
        let failed = || BackendError::io(format!("publish {name} to the sandbox"));
        let dir = instance.dir.clone();
        let lock = tokio::task::spawn_blocking(move || {
            fs::create_dir_all(dir.join(SENT))?;
            boot::lock_publishing(&dir)
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
        sent.map_err(client.error("upload files into the container"))?;
        if let Some(before) = before.filter(|before| before.starts_with('.')) {
            let old = format!("{BOOT_DIR}/{}/{before}", name.shelf());
            // Files of an earlier version do no harm.
            if let Err(error) = empty_inside(client, container, &old).await {
                tracing::debug!(%error, old, "cannot remove an earlier version");
            }
        }
        fs::write(&note, &version).map_err(failed())
    }
}

/// Packs a version of published files, and last the link that makes it current.
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
            BundleContent::Dir => {
                let mut header = header(tar::EntryType::Directory, 0o755, 0);
                builder.append_data(&mut header, &path, io::empty())?;
            }
            BundleContent::File { bytes, executable } => {
                let mode = if *executable { 0o555 } else { 0o444 };
                let mut header = header(tar::EntryType::Regular, mode, bytes.len());
                builder.append_data(&mut header, &path, &**bytes)?;
            }
            BundleContent::Link(target) => {
                let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                builder.append_link(&mut header, &path, target)?;
            }
        }
    }
    let mut link = header(tar::EntryType::Symlink, 0o777, 0);
    builder.append_link(&mut link, shelf.join(name.name()), version)?;
    builder.into_inner()
}

/// Empties a directory of a running container, as root.
async fn empty_inside(
    client: &EngineClient,
    container: &str,
    dir: &str,
) -> Result<(), BackendError> {
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

/// Mount point of the source of a copy, in the helper container.
const FROM: &str = "/.vestal/from";

/// Mount point of the target's parent directory, in the helper container.
const INTO: &str = "/.vestal/into";

impl Docker {
    /// Copies a tree of a sandbox's files to a path that does not exist yet.
    pub(super) async fn copy_tree(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let program = STAGE_PROGRAM.install(&self.run_dir).map_err(BackendError::io(format!(
            "install the copy program in {}",
            self.run_dir.display()
        )))?;
        let tree = from.to_owned();
        let may_copy = tokio::task::spawn_blocking(move || may_copy(&tree)).await.unwrap_or(false);
        let what = tree_name(from);
        if may_copy {
            copying::copy(&program, &CopyingUser::AsSelf, from, to, &what, progress).await
        } else {
            let observer = CopyObserver { what: &what, progress, end: Mutex::default() };
            self.copy_inside(&program, from, to, &observer).await
        }
    }

    async fn copy_inside(
        &self,
        program: &Path,
        from: &Path,
        to: &Path,
        observer: &CopyObserver<'_>,
    ) -> Result<CopyTotals, BackendError> {
        let client = self.client().await?;
        let image = self.any_image(&client).await?;
        let failed = |message: String| BackendError::Engine {
            action: format!("copy {} from inside a container", observer.what),
            message,
        };
        let (Some(parent), Some(name)) = (to.parent(), to.file_name().and_then(|n| n.to_str()))
        else {
            return Err(failed(format!("{} cannot be the target of a copy", to.display())));
        };
        let request = HelperRequest { home: &self.home, image: &image, user: None };
        let args = vec!["copy".to_owned(), FROM.to_owned(), format!("{INTO}/{name}")];
        let mounts = vec![(from, FROM), (parent, INTO)];
        let host_users = client.info().await?.remaps_root();
        let program = HelperProgram::Copier { program, into: to, host_users, sink: observer };
        let outcome = self.run_helper(&client, request, args, mounts, program).await;
        match (outcome, observer.end()) {
            (Ok(_), Some(CopyReport::Done(copied))) => Ok(copied),
            (_, Some(CopyReport::Failed(failure))) => {
                let failure = failure.with_host_paths(FROM, from).with_host_paths(INTO, parent);
                Err(failure.explain(observer.what, to))
            }
            (Err(HelperError::Backend(error)), _) => Err(error),
            (Err(error), _) => Err(failed(error.to_string())),
            (Ok(_), _) => Err(failed("the copy program did not report success".to_owned())),
        }
    }
}

/// Returns the name of a tree for messages.
fn tree_name(from: &Path) -> String {
    let name = from.file_name().map(|name| name.to_string_lossy().into_owned());
    format!("the sandbox's {}", name.as_deref().unwrap_or("files"))
}

/// Passes on the progress of a copy in a helper container and keeps its result.
#[derive(Debug)]
struct CopyObserver<'a> {
    what: &'a str,
    progress: &'a ProgressSink,
    end: Mutex<Option<CopyReport>>,
}

impl CopyObserver<'_> {
    /// Returns the final report, if there was one.
    fn end(&self) -> Option<CopyReport> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl HelperOutput for CopyObserver<'_> {
    fn line(&self, line: &str) {
        match CopyReport::parse(line) {
            Some(CopyReport::Progress { files, bytes, total }) => {
                let what = self.what.to_owned();
                self.progress.report(Progress::Copying { what, files, bytes, total });
            }
            // An unknown line does not complete the copy.
            None => {}
            end => {
                if let Some(CopyReport::Done(copied)) = &end {
                    self.progress.report(copied.as_progress(self.what));
                }
                *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
            }
        }
    }
}

/// Returns whether this user may read a whole tree and give the copy to the same
/// owners. If that cannot be determined, the answer is no.
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
            // The owner has no permission to read the file.
            return false;
        }
    }
    true
}

/// Mount point of the directory to empty, in the helper container.
const DIR_TO_EMPTY: &str = "/.vestal/dir";

impl Docker {
    /// Removes the directory of an instance.
    pub(super) async fn remove_instance_dir(&self, dir: &Path) -> Result<(), BackendError> {
        match remove_tree(dir) {
            Ok(()) => Ok(()),
            Err(StoreError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                self.empty_dir(dir).await?;
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

    /// Empties a directory from a helper container, whose root may delete what
    /// this user may not.
    pub(super) async fn empty_dir(&self, dir: &Path) -> Result<(), BackendError> {
        let client = self.client().await?;
        end_copies_into(&client, &self.home, dir).await?;
        let image = self.any_image(&client).await?;
        let program = GUEST_PROGRAM.install(&self.run_dir).map_err(BackendError::io(format!(
            "install the guest in {}",
            self.run_dir.display()
        )))?;
        let request = HelperRequest { home: &self.home, image: &image, user: None };
        let args = vec!["erase".to_owned(), DIR_TO_EMPTY.to_owned()];
        let mounts = vec![(dir, DIR_TO_EMPTY)];
        let host_users = client.info().await?.remaps_root();
        let program = HelperProgram::Eraser { program: &program, host_users };
        let emptied = self.run_helper(&client, request, args, mounts, program).await;
        emptied.map(drop).map_err(|error| match error {
            HelperError::Backend(error) => error,
            other => BackendError::Engine {
                action: format!("empty {}", dir.display()),
                message: other.to_string(),
            },
        })
    }

    /// Returns any image that the engine has: the guest needs nothing in it.
    pub(super) async fn any_image(&self, client: &EngineClient) -> Result<String, BackendError> {
        let configured = self.settings.get(&crate::settings::keys::DOCKER_IMAGE)?.value;
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
    fn progress_of_a_copy_is_passed_on_and_the_final_report_kept() {
        let received = std::sync::Arc::new(Mutex::new(Vec::new()));
        let sink = std::sync::Arc::clone(&received);
        let progress = ProgressSink::new(move |step| sink.lock().unwrap().push(step));
        let observer =
            CopyObserver { what: "the home", progress: &progress, end: Mutex::default() };
        observer.line(r#"{"files":1,"bytes":2,"total":null}"#);
        observer.line("rubbish");
        assert_eq!(observer.end(), None);
        let what = "the home".to_owned();
        let step = Progress::Copying { what, files: 1, bytes: 2, total: None };
        let copied = CopyTotals { files: 3, bytes: 4 };
        observer.line(r#"{"done":true,"files":3,"bytes":4,"skipped":0}"#);
        assert_eq!(observer.end(), Some(CopyReport::Done(copied)));
        assert_eq!(*received.lock().unwrap(), [step, copied.as_progress("the home")]);
    }
}
