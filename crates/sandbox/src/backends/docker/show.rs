//! Showing files to a container.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use futures_util::StreamExt as _;

use super::api::Client;
use super::backend::Docker;
use super::locator::{DockerLocator, Transport};
use super::plan::{BOOT_DIR, GUEST_FILE};
use crate::backend::{BackendError, Instance};
use crate::backends::show;
use crate::publish::{Bundle, Content, PublishedName, version_name};

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
            if let Err(error) = empty(client, container, &old).await {
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
async fn empty(client: &Client, container: &str, dir: &str) -> Result<(), BackendError> {
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
