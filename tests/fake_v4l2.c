/* A camera that the kernel does not have: preloaded, it answers what Video4Linux would for /dev/video77.

   Pictures are the files $FAKE_V4L2/0.jpg, 1.jpg and so on, 20 ms apart, stamped on the monotonic clock 7 ms before they
   can be taken. After the last one the camera is unplugged. $FAKE_V4L2_ERROR is an errno that opening gives instead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define DEVICE "/dev/video77"
#define BUFFER_BYTES (1 << 20)
#define MOST_BUFFERS 32

static int camera = -1, buffers, picture, waiting[MOST_BUFFERS], waits;
static unsigned char *memory;

static int opened(void) {
    const char *error = getenv("FAKE_V4L2_ERROR");
    if (error) {
        errno = atoi(error);
        return -1;
    }
    picture = waits = 0;
    camera = memfd_create("camera", 0);
    if (ftruncate(camera, (off_t)BUFFER_BYTES * MOST_BUFFERS)) return -1;
    memory = mmap(NULL, (size_t)BUFFER_BYTES * MOST_BUFFERS, PROT_READ | PROT_WRITE, MAP_SHARED, camera, 0);
    return camera;
}

#define OPEN(name)                                                              \
    int name(const char *path, int flags, ...) {                                \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        int mode = va_arg(rest, int);                                           \
        va_end(rest);                                                           \
        if (!strcmp(path, DEVICE)) return opened();                             \
        int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);          \
        return real(path, flags, mode);                                         \
    }
OPEN(open)
OPEN(open64)

static int take(struct v4l2_buffer *buffer) {
    char path[512];
    snprintf(path, sizeof path, "%s/%d.jpg", getenv("FAKE_V4L2"), picture);
    FILE *file = fopen(path, "rb");
    if (!file || !waits) {
        errno = ENODEV;
        return -1;
    }
    usleep(20000);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long stamp_us = now.tv_sec * 1000000LL + now.tv_nsec / 1000 - 7000;
    int index = waiting[0];
    memmove(waiting, waiting + 1, --waits * sizeof *waiting);
    buffer->index = index;
    buffer->bytesused = fread(memory + (size_t)index * BUFFER_BYTES, 1, BUFFER_BYTES, file);
    buffer->timestamp.tv_sec = stamp_us / 1000000;
    buffer->timestamp.tv_usec = stamp_us % 1000000;
    buffer->flags = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    buffer->sequence = picture++;
    fclose(file);
    return 0;
}

static int answer(unsigned long request, void *given) {
    struct v4l2_capability *capability = given;
    struct v4l2_format *format = given;
    struct v4l2_streamparm *parameters = given;
    struct v4l2_requestbuffers *wanted = given;
    struct v4l2_buffer *buffer = given;
    switch (request) {
    case VIDIOC_QUERYCAP:
        capability->capabilities = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
        return 0;
    case VIDIOC_G_INPUT:
        *(int *)given = 0;
        return 0;
    case VIDIOC_ENUMINPUT:
    case VIDIOC_STREAMON:
    case VIDIOC_STREAMOFF:
    case VIDIOC_G_FMT:
        return 0;
    case VIDIOC_S_FMT: /* one format, one size: what a driver cannot do it changes to what it can */
        format->fmt.pix.pixelformat = V4L2_PIX_FMT_MJPEG;
        format->fmt.pix.width = 64;
        format->fmt.pix.height = 48;
        format->fmt.pix.field = V4L2_FIELD_NONE;
        format->fmt.pix.sizeimage = BUFFER_BYTES;
        return 0;
    case VIDIOC_G_PARM:
    case VIDIOC_S_PARM:
        parameters->parm.capture.capability = V4L2_CAP_TIMEPERFRAME;
        parameters->parm.capture.timeperframe.numerator = 1;
        parameters->parm.capture.timeperframe.denominator = 50;
        return 0;
    case VIDIOC_REQBUFS:
        buffers = wanted->count = wanted->count > MOST_BUFFERS ? MOST_BUFFERS : wanted->count;
        return 0;
    case VIDIOC_QUERYBUF:
        buffer->length = BUFFER_BYTES;
        buffer->m.offset = buffer->index * BUFFER_BYTES;
        return 0;
    case VIDIOC_QBUF:
        waiting[waits++] = buffer->index;
        return 0;
    case VIDIOC_DQBUF:
        return take(buffer);
    default:
        errno = EINVAL;
        return -1;
    }
}

int ioctl(int descriptor, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void *given = va_arg(rest, void *);
    va_end(rest);
    if (descriptor == camera && camera >= 0) return answer(request & 0xffffffff, given);
    int (*real)(int, unsigned long, void *) = dlsym(RTLD_NEXT, "ioctl");
    return real(descriptor, request, given);
}
