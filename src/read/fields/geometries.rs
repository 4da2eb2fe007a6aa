//! Maps, boxes and points go with their pictures: they have a geometry in common.

use crate::decode::image::Moves;
use crate::decode::{CropFit, ImageAugment, ImageColour, ImageOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::read::ColumnRef;

use super::codec::Codec;
use super::field::Field;
use super::image::Image;
use super::targets::Targets;

/// Gives each image of a sample but the first its own geometry, unless it names one; also each sound of several.
/// Connects maps, boxes and points with their pictures.
///
/// # Errors
///
/// [`ErrorKind::Config`](crate::ErrorKind::Config) for a map that can't be transformed like its picture.
pub(crate) fn named_geometries(fields: &[(String, Field)]) -> Result<Vec<(String, Field)>> {
    let mut fields = fields.to_vec();
    let images = images_of(&fields);
    for (name, field) in &fields {
        if let Codec::Image(map) = &field.codec {
            map.check_alone(&images).map_err(|error| error.at_column(name))?;
        }
    }
    // The first image draws the same numbers with and without others, like a map of it in another source, unless
    // something of its record goes with it by its name.
    let is_named = |name: &str| fields.iter().any(|(_, field)| field.codec.geometry() == Some(name));
    let first = usize::from(images.first().is_some_and(|(name, _)| !is_named(name)));
    let own = fields.iter_mut().filter_map(|(name, field)| field.image_mut().map(|image| (name, image)));
    for (name, image) in own.skip(first) {
        image.name_geometry(name);
    }
    if fields.iter().filter(|(_, field)| matches!(field.codec, Codec::Audio(_))).count() > 1 {
        for (name, field) in &mut fields {
            if let Codec::Audio(audio) = &mut field.codec {
                audio.name_geometry(name);
            }
        }
    }
    let images = images_of(&fields);
    for (name, field) in &mut fields {
        if let Codec::Image(map) = &mut field.codec {
            let followed = images.iter().try_for_each(|(_, image)| map.go_with(image).map(drop));
            followed.map_err(|error| error.at_column(&*name))?;
        }
    }
    let images = images_of(&fields);
    for (name, field) in &mut fields {
        let columns = field.columns(name);
        if let Codec::Targets(targets) = &mut field.codec
            && targets.picture.is_none()
        {
            targets.go_with(&mut field.from, columns, &images);
        }
    }
    Ok(fields)
}

/// Connects maps with pictures of other sources, as [`named_geometries`] does with those of their own. Returns whether
/// any field was changed.
///
/// # Errors
///
/// As [`named_geometries`].
pub(crate) fn connect_sources(sources: &mut [&mut Vec<(String, Field)>]) -> Result<bool> {
    let mut has_changed = name_first_geometries(sources);
    for of_map in 0..sources.len() {
        for of_picture in (0..sources.len()).filter(|other| *other != of_map) {
            let Ok([maps, pictures]) = sources.get_disjoint_mut([of_map, of_picture]) else { continue };
            for (name, map) in maps.iter_mut() {
                let Codec::Image(map) = &mut map.codec else { continue };
                for (_, picture) in pictures.iter() {
                    has_changed |= map.go_with(picture).map_err(|error| error.at_column(&*name))?;
                }
            }
        }
    }
    Ok(has_changed)
}

/// If a map goes with the first picture of another source by its name, all sources' first images get that geometry: without
/// one, they draw the same numbers. Returns whether there is such a map.
fn name_first_geometries(sources: &mut [&mut Vec<(String, Field)>]) -> bool {
    let is_named =
        |fields: &[(String, Field)], name: &str| fields.iter().any(|(_, field)| field.codec.geometry() == Some(name));
    let first = |fields: &[(String, Field)]| {
        let (at, (name, field)) =
            fields.iter().enumerate().find(|(_, (_, field))| matches!(field.codec, Codec::Image(_)))?;
        (field.codec.geometry().is_none() && !is_named(fields, name)).then(|| (at, name.clone()))
    };
    let firsts: Vec<_> = sources.iter().map(|fields| first(fields)).collect();
    let goes_by_name = |name: &String| sources.iter().any(|fields| is_named(fields, name));
    let Some(name) = firsts.iter().flatten().map(|(_, name)| name).find(|name| goes_by_name(name)).cloned() else {
        return false;
    };
    for (fields, first) in sources.iter_mut().zip(firsts) {
        if let Some((at, _)) = first
            && let Some(image) = fields[at].1.image_mut()
        {
            image.name_geometry(&name);
        }
    }
    true
}

fn images_of(fields: &[(String, Field)]) -> Vec<(String, Field)> {
    fields.iter().filter(|(_, field)| matches!(field.codec, Codec::Image(_))).cloned().collect()
}

impl Image {
    /// Refuses a map without a geometry if each picture among `images`, those of its record, would be transformed in
    /// another way. The whole of a picture may become a smaller or larger map.
    fn check_alone(&self, images: &[(String, Field)]) -> Result<()> {
        let map = &self.0;
        if map.colour != ImageColour::Index || map.geometry.is_some() {
            return Ok(());
        }
        let is_moved = |options: &ImageOptions| options.augment.iter().any(|step| step.moves() > Moves::Nothing);
        let mut other = None;
        for (name, image) in images {
            let Codec::Image(Image(picture)) = &image.codec else { continue };
            if picture.colour == ImageColour::Index {
                continue;
            }
            let shows_all = picture.fit == CropFit::default() || picture.size == map.size;
            if !is_moved(picture) && !is_moved(map) && picture.fit == map.fit && shows_all {
                return Ok(());
            }
            other.get_or_insert(name);
        }
        let Some(name) = other else { return Ok(()) };
        let message = format!(
            "without `geometry`, this map is not cropped, flipped and turned like {name:?}; give both the same `geometry`"
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    /// Gives a map without operations of its own those of `image`, if it is the picture with its geometry, and likewise
    /// its fit. Returns whether that changed it.
    fn go_with(&mut self, image: &Field) -> Result<bool> {
        let Codec::Image(Image(picture)) = &image.codec else { return Ok(false) };
        let map = &mut self.0;
        let before = (map.augment.is_empty(), map.fit);
        if map.colour == ImageColour::Index
            && picture.colour != ImageColour::Index
            && map.geometry.is_some()
            && map.geometry == picture.geometry
        {
            if map.fit == CropFit::default() {
                // Operations of its own suit the map, whatever those of its picture are.
                let augment = if map.augment.is_empty() { picture.augment.as_slice() } else { &[] };
                map.fit = inherited_fit(picture, augment, map.size)?;
            }
            if map.augment.is_empty() {
                map.augment.clone_from(&picture.augment);
            }
        }
        Ok((map.augment.is_empty(), map.fit) != before)
    }
}

impl Targets {
    /// Connects boxes or points with their picture, one of `images`, or with a map if no picture has their geometry.
    /// They also take the picture's bytes, or the fields with its size.
    fn go_with(&mut self, from: &mut Vec<ColumnRef>, columns: Vec<ColumnRef>, images: &[(String, Field)]) {
        let goes_with = |(_, field): &&(String, Field)| match (&field.codec, &self.geometry) {
            (Codec::Image(image), Some(geometry)) => image.options().geometry.as_ref() == Some(geometry),
            (_, None) => images.len() == 1,
            _ => false,
        };
        let found = images.iter().filter(goes_with).min_by_key(|(_, field)| field.codec.is_map());
        let Some((name, Field { codec: Codec::Image(image), is_file, from: of_image, .. })) = found else { return };
        self.picture = Some(image.options().clone());
        *from = columns;
        match &self.size_from {
            Some(sides) => from.extend(sides.clone()),
            None if *is_file => {}
            None if of_image.is_empty() => from.push(name.as_str().into()),
            None => from.extend(of_image.first().cloned()),
        }
    }
}

/// The fit of a map of this size that is transformed like `picture`, by these of its operations.
fn inherited_fit(picture: &ImageOptions, augment: &[ImageAugment], size: Option<(u32, u32)>) -> Result<CropFit> {
    if picture.size == size {
        return Ok(picture.fit);
    }
    // Height and width of the picture, and of the map.
    let sides = picture.size.zip(size).map(|((a, b), (c, d))| [a, b, c, d].map(u64::from));
    let sides = sides.filter(|[a, b, c, d]| a * d == b * c);
    let most = if sides.is_some() { Moves::ByAngles } else { Moves::ByShares };
    let fault = |what: &str| {
        let message = format!(
            "{what} of its picture does not suit a map of another size; give the map the picture's size, or its own \
             `augment` or `fit`"
        );
        Err(Error::new(ErrorKind::Config, message))
    };
    if let Some(step) = augment.iter().find(|step| step.moves() > most) {
        return fault(step.name());
    }
    let CropFit::CenterCrop { shorter } = picture.fit else { return Ok(picture.fit) };
    let scaled = sides.and_then(|[side, _, of_map, _]| {
        let product = u64::from(shorter) * of_map;
        let is_whole = product.checked_rem(side) == Some(0);
        is_whole.then(|| u32::try_from(product / side).ok()).flatten()
    });
    match scaled {
        Some(shorter) => Ok(CropFit::CenterCrop { shorter }),
        None => fault(&format!("fit = center_crop with shorter = {shorter}")),
    }
}
