use super::baseline::Index;
use super::decoder::DecodeImage;
use super::options::JpegDecoder;
use super::stored::{Header, ImageFormat, Region};
#[cfg(feature = "turbojpeg")]
use super::turbojpeg;
use super::{bmp, gif, jpeg, map, other, png, pnm, tiff};
use crate::error::Result;
use crate::memory::MemoryBudget;

/// The decoders that a worker keeps.
#[derive(Default)]
pub(crate) struct Decoders {
    auto: jpeg::Auto,
    turbo: jpeg::LibjpegTurbo,
    #[cfg(feature = "turbojpeg")]
    c: turbojpeg::TurboJpeg,
    png: png::Png,
    bmp: bmp::Bmp,
    gif: gif::Gif,
    pnm: pnm::Pnm,
    other: other::ImageCrate,
}

impl Decoders {
    /// Lets all decoders of a budget share an index of JPEG files of at most so many bytes.
    pub(super) fn share_index(&mut self, budget: &MemoryBudget, bytes: u64) {
        self.auto.set_index(|| budget.spare(Index::new), bytes);
    }

    /// The decoder for `format`.
    pub(crate) fn of(&mut self, format: ImageFormat, jpeg: JpegDecoder) -> &mut dyn DecodeImage {
        match (format, jpeg) {
            (ImageFormat::Jpeg, JpegDecoder::Auto) => &mut self.auto,
            (ImageFormat::Jpeg, JpegDecoder::LibjpegTurbo) => &mut self.turbo,
            #[cfg(feature = "turbojpeg")]
            (ImageFormat::Jpeg, JpegDecoder::TurboJpeg) => &mut self.c,
            (ImageFormat::Png, _) => &mut self.png,
            (ImageFormat::Bmp, _) => &mut self.bmp,
            (ImageFormat::Gif, _) => &mut self.gif,
            (ImageFormat::Pnm, _) => &mut self.pnm,
            _ => &mut self.other,
        }
    }

    /// Whether the decoder can shrink while it decodes.
    pub(super) fn can_scale(format: ImageFormat, jpeg: JpegDecoder) -> bool {
        let is_jpeg = format == ImageFormat::Jpeg && matches!(jpeg, JpegDecoder::Auto | JpegDecoder::TurboJpeg);
        is_jpeg && cfg!(feature = "turbojpeg")
    }

    /// Bytes of memory, beside a few rows and tables.
    pub(super) fn held(&self) -> u64 {
        let held = self.auto.held() + self.turbo.held() + self.gif.held() + self.other.held();
        #[cfg(feature = "turbojpeg")]
        let held = held + self.c.held();
        held
    }

    /// Most bytes that a decoder takes to decode `region` of a file, in addition to the region's pixels, and to a few
    /// rows and tables.
    pub(super) fn memory(header: &Header, region: Region, bytes: &[u8], jpeg: JpegDecoder) -> u64 {
        // Some decode the whole image first, and cut out the region.
        let cut = if region == Region::whole(header) { 0 } else { 3 * Region::whole(header).pixels() };
        match header.format {
            ImageFormat::Jpeg => jpeg::memory(header, region, bytes, jpeg),
            // Row by row.
            ImageFormat::Png | ImageFormat::Bmp | ImageFormat::Pnm => 0,
            ImageFormat::Gif => gif::memory(bytes),
            ImageFormat::WebP => other::webp_memory(header, bytes) + cut,
            ImageFormat::Tiff => tiff::memory(header, region, bytes, cut),
        }
    }

    /// Reads the values of a segmentation map as they are stored.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`](crate::ErrorKind::Format) for a file that is damaged or not a map.
    pub(super) fn read_map(&mut self, bytes: &[u8], header: &Header, map: &mut map::Map) -> Result<()> {
        match header.format {
            ImageFormat::Png => self.png.read_map(bytes, header, map),
            ImageFormat::Gif => self.gif.read_map(bytes, header, map),
            ImageFormat::Pnm => self.pnm.read_map(bytes, header, map),
            ImageFormat::Bmp => bmp::read_map(bytes, header, map),
            ImageFormat::Tiff => self.other.read_map(bytes, header, map),
            ImageFormat::Jpeg | ImageFormat::WebP => Err(map::not_a_map(header)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::container::header;
    use super::super::decoder::copy_region;
    use super::super::stored::Scale;
    use super::*;
    use crate::random::RandomKey;

    /// Compares decoded regions with boxes that are cut from the whole image.
    fn check_regions(what: &str, bytes: &[u8], jpeg: JpegDecoder) {
        let header = header(bytes).unwrap();
        let mut decoders = Decoders::default();
        let decoder = decoders.of(header.format, jpeg);
        let mut whole = vec![0; Region::whole(&header).bytes()];
        decoder.decode(bytes, &header, Scale::FULL, Region::whole(&header), &mut whole).unwrap();
        let key = RandomKey::new(5);
        for index in 0..24 {
            // Sides and positions from 1 pixel up to everything, including small boxes and those at the edges.
            let draw = |counter: u64, most: u32| (key.with(index).bits(counter) % u64::from(most)) as u32;
            let shrink = [1, 2, 8][index as usize % 3];
            let width = 1 + draw(0, header.width.div_ceil(shrink));
            let height = 1 + draw(1, header.height.div_ceil(shrink));
            let x = draw(2, header.width - width + 1);
            let y = if index % 5 == 0 { header.height - height } else { draw(3, header.height - height + 1) };
            let region = Region { x, y, width, height };
            let mut expected = vec![0; region.bytes()];
            copy_region(&whole, header.width, region, &mut expected);
            let mut cut = vec![0xaa; region.bytes()];
            decoder.decode(bytes, &header, Scale::FULL, region, &mut cut).unwrap();
            let differing = cut.iter().zip(&expected).filter(|(a, b)| a != b).count();
            assert_eq!(differing, 0, "{what} {region:?}: {differing} bytes of {}", cut.len());
        }
    }

    #[test]
    fn a_region_is_cut_from_the_whole_by_every_decoder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/");
        let mut names: Vec<String> = ["images", "photos"]
            .iter()
            .flat_map(|part| std::fs::read_dir(format!("{folder}{part}")).unwrap())
            .map(|entry| entry.unwrap().path().display().to_string())
            .filter(|name| name.ends_with(".jpg"))
            .collect();
        names.sort();
        assert!(names.len() > 10);
        for name in &names {
            let bytes = std::fs::read(name).unwrap();
            for jpeg in [JpegDecoder::Auto, JpegDecoder::LibjpegTurbo] {
                check_regions(name, &bytes, jpeg);
            }
            #[cfg(feature = "turbojpeg")]
            if header(&bytes).unwrap().channels != 4 {
                check_regions(name, &bytes, JpegDecoder::TurboJpeg);
            }
        }
        let mut others = 0;
        for entry in ["images", "maps", "tiff-parts"]
            .iter()
            .flat_map(|part| std::fs::read_dir(format!("{folder}{part}")).unwrap())
        {
            let name = entry.unwrap().path();
            let bytes = std::fs::read(&name).unwrap();
            let is_refused = name.display().to_string().contains("refused");
            if !is_refused && ImageFormat::of_content(&bytes).is_some_and(|format| format != ImageFormat::Jpeg) {
                check_regions(&name.display().to_string(), &bytes, JpegDecoder::Auto);
                others += 1;
            }
        }
        assert!(others > 50, "{others}");
    }

    #[test]
    fn a_region_is_cut_from_the_whole_with_every_kind_of_jpeg() {
        use libjpeg_turbo_rs::{Encoder, PixelFormat, Subsampling};

        let (width, height) = (237, 171);
        let key = RandomKey::new(1);
        // The colour changes from pixel to pixel, so that its interpolation shows at the edges of a region.
        let pixels: Vec<u8> = (0..width * height * 3)
            .map(|i| (i % (width * 3) / 3 + i / (width * 5)) as u8 ^ key.bits(i as u64) as u8 & 63)
            .collect();
        for subsampling in [
            Subsampling::S444,
            Subsampling::S422,
            Subsampling::S420,
            Subsampling::S440,
            Subsampling::S411,
            Subsampling::S441,
            Subsampling::S410,
        ] {
            for (progressive, restart) in [(false, 0), (true, 0), (false, 2)] {
                let encoder = Encoder::new(&pixels, width, height, PixelFormat::Rgb).quality(90);
                let encoder = encoder.subsampling(subsampling).progressive(progressive).restart_rows(restart);
                let what = format!("{subsampling:?}, progressive: {progressive}, restarts: {restart}");
                let bytes = encoder.encode().unwrap();
                check_regions(&what, &bytes, JpegDecoder::LibjpegTurbo);
                #[cfg(feature = "turbojpeg")]
                check_regions(&what, &bytes, JpegDecoder::TurboJpeg);
            }
        }
    }

    #[cfg(feature = "turbojpeg")]
    #[test]
    fn c_gives_the_same_pixels_and_its_regions_are_cut_from_the_whole_at_every_scale() {
        for name in ["china.jpg", "flower.jpg"] {
            let path = format!("{}/fixtures/photos/{name}", env!("CARGO_MANIFEST_DIR"));
            let bytes = std::fs::read(path).unwrap();
            let header = header(&bytes).unwrap();
            let mut decoders = Decoders::default();
            let mut decode = |jpeg, scale, region: Region| {
                let mut into = vec![0; region.bytes()];
                decoders.of(header.format, jpeg).decode(&bytes, &header, scale, region, &mut into).unwrap();
                into
            };
            let whole = Region::whole(&header);
            let full = decode(JpegDecoder::TurboJpeg, Scale::FULL, whole);
            assert!(full == decode(JpegDecoder::LibjpegTurbo, Scale::FULL, whole), "{name}");
            for (nth, eighths) in [1, 2, 4].into_iter().enumerate() {
                let scale = Scale(eighths);
                let shrunk = whole.at(scale, &header);
                let all = decode(JpegDecoder::TurboJpeg, scale, shrunk);
                for index in 0..10 {
                    let key = RandomKey::new(nth as u64).with(index);
                    let draw = |counter: u64, most: u32| (key.bits(counter) % u64::from(most)) as u32;
                    let (width, height) = (1 + draw(0, shrunk.width), 1 + draw(1, shrunk.height));
                    let (x, y) = (draw(2, shrunk.width - width + 1), draw(3, shrunk.height - height + 1));
                    let region = Region { x, y, width, height };
                    let mut expected = vec![0; region.bytes()];
                    copy_region(&all, shrunk.width, region, &mut expected);
                    assert!(decode(JpegDecoder::Auto, scale, region) == expected, "{name} {eighths}/8 {region:?}");
                }
            }
        }
    }

    #[test]
    fn damage_outside_of_a_region_is_seen_too() {
        let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/photos/china.jpg")).unwrap();
        let header = header(&bytes).unwrap();
        let refused = |bytes: &[u8], region: Region| {
            let mut into = vec![0; region.bytes()];
            Decoders::default()
                .of(header.format, JpegDecoder::LibjpegTurbo)
                .decode(bytes, &header, Scale::FULL, region, &mut into)
                .is_err()
        };
        let top = Region { x: 0, y: 0, width: 100, height: 100 };
        let bottom = Region { x: 500, y: 300, width: 100, height: 100 };
        for at in [bytes.len() / 4, bytes.len() / 2, bytes.len() / 8 * 7] {
            let mut marker = bytes.clone();
            marker[at..at + 2].copy_from_slice(&[0xff, 0xd9]);
            let mut restart = bytes.clone();
            restart[at..at + 2].copy_from_slice(&[0xff, 0xd3]);
            let gap = [&bytes[..at], &bytes[at + 3000..]].concat();
            for (what, damaged) in [("marker", &marker), ("restart", &restart), ("gap", &gap)] {
                assert!(refused(damaged, Region::whole(&header)), "{what} at {at}");
                assert!(refused(damaged, top) && refused(damaged, bottom), "{what} at {at}, in a region");
            }
        }
    }
}
