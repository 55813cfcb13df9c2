//! Catalogues of skills: a web site whose sitemap is walked whole, index and all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use async_recursion::async_recursion as boxed;
use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use vestal_web::Fetcher;

use super::SkillSource;
use super::fetch::fetcher;
use crate::error::SkillError;
use crate::keys;
use crate::skills::Skills;

/// Where the repositories of a catalogue are, unless the settings say.
const GITHUB: &str = "https://github.com/{owner}/{repository}";

/// Sitemaps of one site.
const MOST_SITEMAPS: usize = 1000;

/// Entries of one catalogue.
const MOST_ENTRIES: usize = 500_000;

/// Bytes of a sitemap that was compressed.
const MOST_BYTES: u64 = 128 << 20;

/// How long what was walked counts.
const MAX_AGE: Duration = Duration::from_hours(24);

/// The version of the file.
const VERSION: u32 = 1;

/// A skill in a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CatalogueEntry {
    /// Who has it there.
    pub owner: String,
    /// The repository.
    pub repository: String,
    /// Its name.
    pub name: String,
}

impl CatalogueEntry {
    /// Returns what it is called in full.
    pub fn full_name(&self) -> String {
        format!("{}/{}/{}", self.owner, self.repository, self.name)
    }

    /// Reads `owner/repository/name`.
    fn of_path(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let [owner, repository, name] = parts.as_slice() else { return None };
        let is_part = |part: &&&str| {
            !part.is_empty()
                && part.len() <= 128
                && !part.starts_with(['.', '-'])
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        [owner, repository, name].iter().all(is_part).then(|| Self {
            owner: (*owner).to_owned(),
            repository: (*repository).to_owned(),
            name: (*name).to_owned(),
        })
    }
}

/// All skills of a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteCatalogue {
    version: u32,
    /// Its address.
    pub url: String,
    /// The skills, in order.
    pub entries: Vec<CatalogueEntry>,
    /// What could not be read of it.
    #[serde(skip)]
    pub notices: Vec<String>,
}

impl Skills {
    /// Returns all skills of the catalogue that the settings name, as they were found within a day;
    /// `refresh` walks it again.
    #[boxed]
    pub async fn remote_catalogue(&self, refresh: bool) -> Result<RemoteCatalogue, SkillError> {
        let url = self.settings().get(&keys::SKILLS_CATALOGUE_URL)?.value;
        let Some(url) = url.get().map(str::to_owned) else { return Err(SkillError::NoCatalogue) };
        let path = self.catalogue_file();
        if !refresh && let Some(kept) = kept(&path, &url) {
            return Ok(kept);
        }
        let catalogue = walk(&fetcher(self)?, &url)
            .await
            .map_err(|reason| SkillError::Fetch { from: url.clone(), reason })?;
        // It is only a cache.
        if let Err(error) = keep(&path, &catalogue) {
            tracing::debug!(%error, "a catalogue of skills is not kept");
        }
        Ok(catalogue)
    }

    /// Returns where a skill of the catalogue is, by its full name or the address of its page.
    pub fn catalogue_source(&self, text: &str) -> Result<Option<SkillSource>, SkillError> {
        let url = self.settings().get(&keys::SKILLS_CATALOGUE_URL)?.value;
        let below = url.get().and_then(|url| text.strip_prefix(url));
        let path = match below {
            Some(path) if path.starts_with('/') => path,
            _ if SkillSource::is_address(text) => return Ok(None),
            _ => text,
        };
        let Some(entry) = CatalogueEntry::of_path(path) else { return Ok(None) };
        let template = self.settings().get(&keys::SKILLS_CATALOGUE_GIT)?.value;
        let address = template
            .get()
            .unwrap_or(GITHUB)
            .replace("{owner}", &entry.owner)
            .replace("{repository}", &entry.repository);
        let source = SkillSource::parse(&address)
            .and_then(|source| source.with(None, Some(&entry.name)))
            .map_err(|error| SkillError::Fetch {
                from: text.to_owned(),
                reason: error.to_string(),
            })?;
        Ok(Some(source))
    }

    fn catalogue_file(&self) -> PathBuf {
        self.settings().home().dir().join("cache").join("skill-catalogue.json")
    }
}

fn kept(path: &std::path::Path, url: &str) -> Option<RemoteCatalogue> {
    let age = SystemTime::now().duration_since(path.metadata().ok()?.modified().ok()?).ok()?;
    let text = std::fs::read(path).ok().filter(|_| age < MAX_AGE)?;
    let kept: RemoteCatalogue = serde_json::from_slice(&text).ok()?;
    (kept.version == VERSION && kept.url == url).then_some(kept)
}

fn keep(path: &std::path::Path, catalogue: &RemoteCatalogue) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let new = path.with_extension(format!("json.{}", std::process::id()));
    std::fs::write(&new, serde_json::to_vec(catalogue)?)?;
    std::fs::rename(new, path)
}

/// Walks all sitemaps of a site: those that `robots.txt` names, else the usual one, and those that
/// they name in turn.
async fn walk(fetcher: &Fetcher, url: &str) -> Result<RemoteCatalogue, String> {
    let base = url.trim_end_matches('/');
    let mut waiting: VecDeque<String> = named_sitemaps(fetcher, base).await.into();
    if waiting.is_empty() {
        waiting.push_back(format!("{base}/sitemap.xml"));
    }
    let mut seen: BTreeSet<String> = waiting.iter().cloned().collect();
    let (mut found, mut notices) = (BTreeMap::new(), Vec::new());
    let mut walked = 0;
    while let Some(sitemap) = waiting.pop_front() {
        let text = match sitemap_text(fetcher, &sitemap).await {
            Ok(text) => text,
            // Without its first one there is no catalogue; of the others, what is there counts.
            Err(error) if walked == 0 => return Err(format!("{sitemap}: {error}")),
            Err(error) => {
                notices.push(format!("{sitemap}: {error}"));
                continue;
            }
        };
        walked += 1;
        let is_index = text.contains("<sitemapindex");
        for location in locations(&text) {
            // A catalogue speaks for itself alone.
            let Some(path) = location.strip_prefix(base).filter(|path| path.starts_with('/'))
            else {
                continue;
            };
            if is_index {
                if seen.len() < MOST_SITEMAPS && seen.insert(location.clone()) {
                    waiting.push_back(location);
                }
            } else if let Some(entry) = CatalogueEntry::of_path(path)
                && found.len() < MOST_ENTRIES
            {
                found.insert(entry.full_name(), entry);
            }
        }
    }
    if seen.len() >= MOST_SITEMAPS || found.len() >= MOST_ENTRIES {
        notices.push("the catalogue is too large; a part of it is left out".to_owned());
    }
    let entries = found.into_values().collect();
    Ok(RemoteCatalogue { version: VERSION, url: url.to_owned(), entries, notices })
}

/// Returns the sitemaps that a site's `robots.txt` names.
async fn named_sitemaps(fetcher: &Fetcher, base: &str) -> Vec<String> {
    let Ok(page) = fetcher.fetch(&format!("{base}/robots.txt")).await else { return Vec::new() };
    if page.status != 200 {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&page.body);
    let named = text.lines().filter_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.trim().eq_ignore_ascii_case("sitemap").then(|| value.trim().to_owned())
    });
    named.filter(|sitemap| sitemap.starts_with(base)).take(MOST_SITEMAPS).collect()
}

async fn sitemap_text(fetcher: &Fetcher, url: &str) -> Result<String, String> {
    let page = fetcher.fetch(url).await.map_err(|error| error.to_string())?;
    if page.status != 200 {
        return Err(format!("its server answered with status {}", page.status));
    }
    let bytes = if page.body.starts_with(&[0x1f, 0x8b]) {
        let mut bytes = Vec::new();
        let unpacked = GzDecoder::new(&*page.body).take(MOST_BYTES).read_to_end(&mut bytes);
        unpacked.map_err(|error| format!("it cannot be unpacked: {error}"))?;
        bytes
    } else {
        page.body.to_vec()
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if text.contains("<urlset") || text.contains("<sitemapindex") {
        Ok(text)
    } else {
        Err("it is not a sitemap".to_owned())
    }
}

/// Returns the addresses that a sitemap names.
fn locations(text: &str) -> impl Iterator<Item = String> {
    text.split("<loc>").skip(1).filter_map(|rest| {
        let (location, _) = rest.split_once("</loc>")?;
        let location = location.trim();
        let location = location
            .strip_prefix("<![CDATA[")
            .and_then(|inner| inner.strip_suffix("]]>"))
            .unwrap_or(location);
        let plain = location
            .replace("&amp;", "&")
            .replace("&apos;", "'")
            .replace("&quot;", "\"")
            .replace("&lt;", "<")
            .replace("&gt;", ">");
        Some(plain.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_in_a_sitemap_in_several_ways() {
        let text = "<urlset><url><loc> https://h/a?b=1&amp;c=2 </loc><lastmod>x</lastmod></url>\
            <url><loc><![CDATA[https://h/d]]></loc></url><url><loc>cut";
        let found: Vec<String> = locations(text).collect();
        assert_eq!(found, ["https://h/a?b=1&c=2", "https://h/d"]);
    }

    #[test]
    fn only_what_can_be_a_skill_is_an_entry() {
        let name = |path: &str| CatalogueEntry::of_path(path).map(|entry| entry.full_name());
        assert_eq!(name("/owner/repo/pdf-forms/").as_deref(), Some("owner/repo/pdf-forms"));
        for other in ["/", "/about", "/owner/repo", "/a/b/c/d", "/a/../c", "/a/b/-x", "/a/b c/d"] {
            assert_eq!(name(other), None, "{other}");
        }
    }
}
