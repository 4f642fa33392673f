// SPDX-License-Identifier: MIT
/* CONV as weighted lines: packs the source of a tile as lines, phase by phase. */
#include <string.h>

#include "conv_slide.h"

static void find_span(struct span *s, const struct openreg_conv_axis *axis,
		      int64_t count, bool lanes)
{
	int64_t phases = lanes ? 1 : axis->step; /* at most */
	int64_t low = openreg_least(0, (axis->taps - 1) * axis->at_step);
	int64_t most = 0, i, p;

	s->taps = axis->taps;
	s->phases = 0;
	for (i = 0; i < axis->taps; i++) {
		int64_t at = i * axis->at_step - low;
		int64_t begin = low + at % phases;

		for (p = 0; p < s->phases && s->begin[p] != begin; p++)
			;
		if (p == s->phases)
			s->begin[s->phases++] = begin;
		s->phase[i] = (uint8_t)p;
		s->shift[i] = at / phases;
		most = openreg_greatest(most, s->shift[i]);
	}
	s->step = axis->step / phases;
	s->line = (count - 1) * s->step + 1 + most;
}

void openreg_slide_spans(struct slide *s)
{
	unsigned int d;

	s->plane = 1;
	for (d = 0; d < 3; d++) {
		find_span(&s->span[d], &s->axis[d], s->count[d + 1],
			  s->cv->slide.groups > 1);
		s->plane *= s->span[d].line;
	}
	s->taps = s->span[0].taps * s->span[1].taps * s->span[2].taps;
	s->lines = s->channels * s->taps;
	s->length = (s->count[0] - 1) * s->plane +
		    ((s->count[1] - 1) * s->span[1].line + s->count[2] - 1) *
			    s->span[2].line +
		    s->count[3];
}

int64_t openreg_slide_phases(const struct slide *s)
{
	return s->span[0].phases * s->span[1].phases * s->span[2].phases;
}

void openreg_slide_find_lines(const struct slide *s)
{
	const struct span *a = &s->span[0], *b = &s->span[1], *c = &s->span[2];
	int64_t channel, i, j, k, *at = s->at;

	for (channel = 0; channel < s->channels; channel++) {
		for (i = 0; i < a->taps; i++) {
			for (j = 0; j < b->taps; j++) {
				for (k = 0; k < c->taps; k++) {
					int64_t block =
						(a->phase[i] * b->phases +
						 b->phase[j]) * c->phases +
						c->phase[k];

					block += channel * openreg_slide_phases(s);
					*at++ = openreg_slide_row(s, block * s->count[0],
							a->shift[i],
							b->shift[j]) +
						c->shift[k];
				}
			}
		}
	}
	/* Fills the last block of lines; nothing uses the sums of these. */
	for (i = 0; i < OPENREG_SLIDE_LINES; i++)
		*at++ = 0;
}

/* Loads n elements first, first + step, ... of a row, with zeros outside. */
static void load_row(const struct slide *s, float *to, uintptr_t from,
		     int64_t first, int64_t n)
{
	int64_t step = s->axis[2].step, size = s->source_size[2];
	int64_t stride = s->source->at[2];
	int64_t low = first < 0 ? openreg_div_up(-first, step) : 0;
	int64_t high = first < size ? openreg_div_up(size - first, step) : 0;

	low = openreg_least(low, n);
	high = openreg_greatest(low, openreg_least(high, n));
	memset(to, 0, (size_t)low * 4);
	memset(to + high, 0, (size_t)(n - high) * 4);
	if (low < high)
		s->cv->kernels->load[s->cv->dtype][OPENREG_VT_F32](
			to + low,
			(const void *)openreg_slide_element(s->cv, from,
					      openreg_offset(first + low * step,
							     stride)),
			openreg_offset(step, stride), (size_t)(high - low));
}

/* Loads one phase of a channel of an image. */
static float *load_plane(const struct slide *s, float *to, uintptr_t from,
			 const int64_t begin[3])
{
	const int64_t *stride = s->source->at, *size = s->source_size;
	int64_t i, j, k = begin[2], at[2];

	for (i = 0; i < s->span[0].line; i++) {
		at[0] = begin[0] + i * s->axis[0].step;
		for (j = 0; j < s->span[1].line; j++, to += s->span[2].line) {
			at[1] = begin[1] + j * s->axis[1].step;
			if ((uint64_t)at[0] >= (uint64_t)size[0] ||
			    (uint64_t)at[1] >= (uint64_t)size[1])
				memset(to, 0, (size_t)s->span[2].line * 4);
			else
				load_row(s, to,
					 openreg_slide_element(s->cv, from,
						 openreg_offset_add(
							 openreg_offset(at[0], stride[0]),
							 openreg_offset(at[1], stride[1]))),
					 k, s->span[2].line);
		}
	}
	return to;
}

void openreg_slide_load_source(const struct slide *s)
{
	int64_t c, p, n, begin[3];
	float *to = s->x;
	unsigned int d;

	for (c = 0; c < s->channels; c++) {
		for (p = 0; p < openreg_slide_phases(s); p++) {
			int64_t rest = p;

			for (d = 3; d-- > 0;) {
				const struct span *span = &s->span[d];

				begin[d] = s->axis[d].at0 +
					   s->first[d + 1] * s->axis[d].step +
					   span->begin[rest % span->phases];
				rest /= span->phases;
			}
			for (n = 0; n < s->count[0]; n++)
				to = load_plane(
					s, to,
					openreg_slide_channel(s, s->source,
						   s->first[0] + n,
						   openreg_offset(s->channel0 + c,
								  s->source_channel)),
					begin);
		}
	}
	memset(to, 0, OPENREG_SLIDE_SLACK * 4);
}

