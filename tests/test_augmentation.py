"""Pictures of a step: shifted, recoloured, partly hidden, normalised."""

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402 - torch is an extra

from egorecovery.policy.augmentation import augmented  # noqa: E402


def augment_inputs(frames: int, views: int, size: int, samples: int, device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [
        tensor.to(device)
        for tensor in (
            torch.randint(0, 256, (frames, views, size, size, 3), generator=generator, dtype=torch.uint8),
            torch.randint(0, frames, (samples,), generator=generator),
            torch.eye(3, 4) + 0.2 * torch.randn(samples, 3, 4, generator=generator),
            torch.randint(-4, 5, (samples, views, 5), generator=generator, dtype=torch.int32),
            torch.tensor([0.485, 0.456, 0.406]),
            torch.tensor([0.229, 0.224, 0.225]),
        )
    ]


def test_unshifted_frames_with_identity_colour_come_out_normalised():
    frames, index_B, _, crop_BV5, mean_3, std_3 = augment_inputs(5, 2, 8, 3, "cpu")
    colour_B34 = torch.eye(3, 4).repeat(3, 1, 1)
    found = augmented(frames, index_B, colour_B34, torch.zeros_like(crop_BV5), mean_3, std_3, dtype=torch.float32)[1]
    wanted = (frames[index_B, 1].permute(0, 3, 1, 2) / 255 - mean_3[:, None, None]) / std_3[:, None, None]
    torch.testing.assert_close(found, wanted)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_shift_moves_the_picture_and_replicates_its_edge():
    frames, index_B, _, _, _, _ = augment_inputs(5, 1, 8, 1, "cpu")
    crop_BV5 = torch.tensor([[[2, -3, 0, 0, 0]]], dtype=torch.int32)
    unit = (torch.eye(3, 4)[None], crop_BV5, torch.zeros(3), torch.ones(3))
    found = augmented(frames, index_B, *unit, dtype=torch.float32)[0, 0]
    original = frames[index_B[0], 0].permute(2, 0, 1) / 255
    torch.testing.assert_close(found[:, :6, 3:], original[:, 2:, :5])
    torch.testing.assert_close(found[:, :6, :3], original[:, 2:, :1].expand(-1, -1, 3))


def test_a_square_of_one_view_is_hidden_behind_the_mean_colour_and_the_rest_is_seen():
    frames, index_B, _, _, mean_3, std_3 = augment_inputs(5, 2, 8, 1, "cpu")
    crop_BV5 = torch.tensor([[[0, 0, 0, 0, 0], [0, 0, 2, 5, 4]]], dtype=torch.int32)
    given = (frames, index_B, torch.eye(3, 4)[None], crop_BV5, mean_3, std_3)
    whole, holed = augmented(*given, dtype=torch.float32)[:, 0]
    seen, other = ((frames[index_B[0], view] / 255 - mean_3) / std_3 for view in (0, 1))
    torch.testing.assert_close(whole, seen.permute(2, 0, 1))
    wanted = other.permute(2, 0, 1).clone()
    wanted[:, 2:6, 5:] = 0
    torch.testing.assert_close(holed, wanted)
